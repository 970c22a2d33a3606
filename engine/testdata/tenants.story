# Those who have had least come first, whoever asked more often.
pool pages=50 sequences=1 rows=64
add a1 prompt=30 limit=2 tenant=a
add a2 prompt=30 limit=2 tenant=a
add a3 prompt=30 limit=2 tenant=a
add b1 prompt=10 limit=2 tenant=b
add b2 prompt=10 limit=2 tenant=b
step n=10
----
1  a1 0:30*   free=49
   a1: 30
   waiting: a2 a3 b1 b2
2  a1 30:31*   free=49
   a1: 31
   a1 ends: length, 2 generated
   waiting: a2 a3 b1 b2
3  b1 0:10*   free=49
   b1: 10
   waiting: a2 a3 b2
4  b1 10:11*   free=49
   b1: 11
   b1 ends: length, 2 generated
   waiting: a2 a3 b2
5  b2 0:10*   free=49
   b2: 10
   waiting: a2 a3
6  b2 10:11*   free=49
   b2: 11
   b2 ends: length, 2 generated
   waiting: a2 a3
7  a2 0:30*   free=49
   a2: 30
   waiting: a3
8  a2 30:31*   free=49
   a2: 31
   a2 ends: length, 2 generated
   waiting: a3
9  a3 0:30*   free=49
   a3: 30
10 a3 30:31*   free=49
   a3: 31
   a3 ends: length, 2 generated

# One that comes late begins with what those who are there have had at least: it owes nothing, and nothing is owed to it.
pool pages=50 sequences=1 rows=64
add a1 prompt=50 limit=2 tenant=a
skip n=1
add a2 prompt=10 limit=1 tenant=a
add b1 prompt=10 limit=2 tenant=b
add b2 prompt=10 limit=1 tenant=b
add a3 prompt=10 limit=1 tenant=a
step n=6
----
2  a1 50:51*   free=49
   a1: 51
   a1 ends: length, 2 generated
   waiting: a2 b1 b2 a3
3  b1 0:10*   free=49
   b1: 10
   waiting: a2 b2 a3
4  b1 10:11*   free=49
   b1: 11
   b1 ends: length, 2 generated
   waiting: a2 b2 a3
5  a2 0:10*   free=49
   a2: 10
   a2 ends: length, 1 generated
   waiting: b2 a3
6  b2 0:10*   free=49
   b2: 10
   b2 ends: length, 1 generated
   waiting: a3
7  a3 0:10*   free=49
   a3: 10
   a3 ends: length, 1 generated
