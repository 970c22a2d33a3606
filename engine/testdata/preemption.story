# When pages lack, the youngest gives up its own, and waits until all its tokens and a page more have room beside the others.
pool pages=5 sequences=2 rows=256
add a prompt=62 limit=80
add b prompt=63 limit=80
skip n=66
step n=2
----
67 a 127:128*  b 128:129*   free=0
   a: 128
   b: 129
   b gives up its pages
68 a 128:129*   free=2
   a: 129
   waiting: b

# It comes back by recomputing its tokens, given and generated alike, in one chunk. What has been told is not told again.
skip n=11
step n=3
----
80 a 140:141*   free=2
   a: 141
   a ends: length, 80 generated
   waiting: b
81 b 0:130*   free=2
   b: 130
82 b 130:131*   free=2
   b: 131

# Where it is the youngest itself that lacks a page, it keeps what it has, and stands still.
pool pages=5 sequences=2 rows=256
add a prompt=63 limit=69
add b prompt=62 limit=80
skip n=66
step n=4
----
67 a 128:129*  b 127:128*   free=0
   a: 129
   b: 128
68 a 129:130*   free=0
   a: 130
69 a 130:131*   free=0
   a: 131
   a ends: length, 69 generated
70 b 128:129*   free=2
   b: 129

# In a step that has room for one row, all of it may be the youngest's, and that lack a page. Then it is preempted, and another goes on.
pool pages=5 sequences=2 rows=1
add a prompt=1 limit=133
add b prompt=1 limit=135
skip n=255
step n=9
----
256b 127:128*   free=1
   b: 128
257a 128:129*   free=0
   a: 129
   b gives up its pages
258a 129:130*   free=2
   a: 130
   waiting: b
259a 130:131*   free=2
   a: 131
   waiting: b
260a 131:132*   free=2
   a: 132
   waiting: b
261a 132:133*   free=2
   a: 133
   a ends: length, 133 generated
   waiting: b
262b 0:1   free=4
263b 1:2   free=4
264b 2:3   free=4
