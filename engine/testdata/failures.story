# A step that fails is tried again, a sequence at a time; who fails alone has failed.
pool pages=10 sequences=3 rows=64
add a prompt=3 limit=9
add b prompt=4 limit=9
add c prompt=5 limit=3
step
step fails=b n=4
step n=2
----
1  a 0:3*  b 0:4*  c 0:5*   free=7
   a: 3
   b: 4
   c: 5
2  a 3:4*  b 4:5*  c 5:6*   free=7
3  a 3:4*   free=7
   a: 4
4  b 4:5*   free=7
   b: planted
5  c 5:6*   free=8
   c: 6
6  a 4:5*  c 6:7*   free=8
   a: 5
   c: 7
   c ends: length, 3 generated
7  a 5:6*   free=9
   a: 6

# A row without numbers fails its request.
step nan=a
step
----
8  a 6:7*   free=9
   a: engine: after token 6: sample: position 6: the logit of token 0 is NaN, want finite numbers or -Inf; a weight or a kernel is broken
9   nothing to compute
