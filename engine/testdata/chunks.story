# Half of a step's rows are the oldest prompt's; the rest goes to what has least to go, so that a short prompt does not wait for a long one.
pool pages=100 sequences=4 rows=64
add long prompt=200 limit=1
add short prompt=40 limit=2
add middle prompt=90 limit=1
step n=4
----
1  long 0:32  short 0:32   free=98
2  short 32:40*  middle 0:24  long 32:64   free=97
   short: 40
3  short 40:41*   free=97
   short: 41
   short ends: length, 2 generated
4  long 64:96  middle 24:56   free=97

# Nothing else decodes now.
step n=3
----
5  long 96:128  middle 56:88   free=96
6  middle 88:90*  long 128:190   free=95
   middle: 90
   middle ends: length, 1 generated
7  long 190:200*   free=96
   long: 200
   long ends: length, 1 generated
