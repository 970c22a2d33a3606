# A second turn begins with what the first has computed: all but the token that was drawn last. Pages that only the tree holds are free.
pool pages=6 rows=256 prefixes=1
add a prompt=100 limit=40
skip n=39
step n=2
add b prompt=160 limit=2
step
----
40 a 138:139*   free=3
   a: 139
   a ends: length, 40 generated
41  nothing to compute
   b begins with 139 of 160 tokens (what is cached ends at token 139)
42 b 139:160*   free=3
   b: 160

# Equal prompts side by side: the second begins with the pages that the first has filled, and takes those that it fills as well only once.
pool pages=9 rows=64 prefixes=1
add a prompt=200 limit=2
step n=2
add b prompt=200 limit=2
step n=4
----
   a begins with 0 of 200 tokens (nothing is cached)
1  a 0:64   free=8
2  a 64:128   free=7
   b begins with 128 of 200 tokens (what is cached ends at token 128)
3  a 128:192   free=6
4  a 192:200*  b 128:184   free=4
   a: 200
5  a 200:201*   free=4
   a: 201
   a ends: length, 2 generated
6  b 184:200*   free=5
   b: 200

# What nobody uses goes before anybody is preempted: c, another tenant, needs five of the six pages; of a's three one is left, its first.
pool pages=6 sequences=2 rows=256 prefixes=1
add a prompt=150 limit=2
step n=2
add c prompt=10 limit=300 tenant=z
skip n=299
step
add d prompt=150 limit=2
step n=2
----
   a begins with 0 of 150 tokens (nothing is cached)
1  a 0:150*   free=3
   a: 150
2  a 150:151*   free=3
   a: 151
   a ends: length, 2 generated
302c 308:309*   free=1
   c: 309
   c ends: length, 300 generated
   d begins with 64 of 150 tokens (what was cached from token 64 on has been evicted)
303d 64:150*   free=3
   d: 150
304d 150:151*   free=3
   d: 151
   d ends: length, 2 generated

# A tenant sees its own prefixes only.
pool pages=9 rows=256 prefixes=1
add a prompt=100 limit=1 tenant=x
step
add b prompt=100 limit=1 tenant=y
step
add c prompt=100 limit=1 tenant=x
step
----
   a begins with 0 of 100 tokens (nothing is cached)
1  a 0:100*   free=7
   a: 100
   a ends: length, 1 generated
   b begins with 0 of 100 tokens (nothing of this tenant is cached)
2  b 0:100*   free=7
   b: 100
   b ends: length, 1 generated
   c begins with 99 of 100 tokens (all but the last)
3  c 99:100*   free=7
   c: 100
   c ends: length, 1 generated

# Who is preempted leaves its pages to the tree, and what is left of them it has when it comes back.
pool pages=5 sequences=2 rows=256 prefixes=1
add a prompt=62 limit=80 tenant=x
add b prompt=63 limit=80 tenant=y
skip n=66
step n=2
skip n=11
step n=2
----
67 a 127:128*  b 128:129*   free=0
   a: 128
   b: 129
   b gives up its pages
68 a 128:129*   free=2
   a: 129
   waiting: b
80 a 140:141*   free=2
   a: 141
   a ends: length, 80 generated
   waiting: b
81 b 128:130*   free=2
   b: 130
