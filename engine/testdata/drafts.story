# A draft is one more row that asks. Drafts that are what was drawn are kept, and the first that is not is replaced.
pool pages=10 sequences=3 rows=64
add a prompt=10 limit=20
step
draft a 3 wrong=1
step
draft a 2
step n=2
----
1  a 0:10*   free=9
   a: 10
2  a 10:14****   free=9
   a: 11
   a: 12
3  a 12:15***   free=9
   a: 13
   a: 14
   a: 15
4  a 15:16*   free=9
   a: 16

# No more is drafted than may come, and nothing after an end token is told.
pool pages=10 sequences=3 rows=64
add a prompt=10 limit=5 end=12
step
draft a 7
step
----
1  a 0:10*   free=9
   a: 10
2  a 10:14****   free=9
   a: 11
   a: 12
   a ends: stop, 3 generated

# Where pages lack, drafts go before anybody is preempted.
pool pages=5 sequences=2 rows=256
add a prompt=63 limit=80
add b prompt=62 limit=80
skip n=66
draft b 6
step
----
67 a 128:129*  b 127:128*   free=0
   a: 129
   b: 128
