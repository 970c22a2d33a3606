# A request waits until its tokens, and a page for each that runs, have room; a smaller one that came later does not pass it.
pool pages=5 sequences=4 rows=256
add a prompt=100 limit=2
add b prompt=200 limit=2
add c prompt=10 limit=2
step n=2
----
1  a 0:100*   free=3
   a: 100
   waiting: b c
2  a 100:101*   free=3
   a: 101
   a ends: length, 2 generated
   waiting: b c

# Then both run.
step n=3
----
3  c 0:10*  b 0:200*   free=0
   c: 10
   b: 200
4  b 200:201*  c 10:11*   free=0
   b: 201
   b ends: length, 2 generated
   c: 11
   c ends: length, 2 generated
5   nothing to compute

# There are slots for so many sequences. The next that waits gets one that becomes free.
pool pages=20 sequences=2 rows=256
add a prompt=10 limit=3
add b prompt=10 limit=2
add c prompt=10 limit=2
step n=4
----
1  a 0:10*  b 0:10*   free=18
   a: 10
   b: 10
   waiting: c
2  a 10:11*  b 10:11*   free=18
   a: 11
   b: 11
   b ends: length, 2 generated
   waiting: c
3  a 11:12*   free=19
   a: 12
   a ends: length, 3 generated
4  c 0:10*   free=19
   c: 10
