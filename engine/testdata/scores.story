# A prompt's rows say what they are asked; a step has room for so many that ask. The last token is computed only if something follows it.
pool pages=10 sequences=3 rows=64 asking=3
add a prompt=8 score=0
add b prompt=6 score=4 limit=1
step n=4
----
1  a 0:3***  b 0:4   free=8
   a: score of 1
   a: score of 2
   a: score of 3
2  a 3:6***   free=8
   a: score of 4
   a: score of 5
   a: score of 6
3  a 6:7*  b 4:6**   free=8
   a: score of 7
   a ends: scored, 0 generated
   b: score of 5
   b: 6
   b ends: length, 1 generated
4   nothing to compute
