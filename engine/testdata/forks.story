# Three answers to one prompt: the first computes all but the prompt's last token, then the others fork off it.
pool pages=10 sequences=3 rows=64
add a prompt=100 limit=2 n=3
step n=4
----
1  a.0 0:64   free=9
   waiting: a.1 a.2
2  a.0 64:99   free=8
   waiting: a.1 a.2
3  a.0 99:100*  a.1 99:100*  a.2 99:100*   free=6
   a.0: 100
   a.1: 100
   a.2: 100
4  a.0 100:101*  a.1 100:101*  a.2 100:101*   free=6
   a.0: 101
   a.0 ends: length, 2 generated
   a.1: 101
   a.1 ends: length, 2 generated
   a.2: 101
   a.2 ends: length, 2 generated

# With fewer slots than answers, what is too late to fork computes the prompt by itself.
pool pages=10 sequences=2 rows=64
add a prompt=70 limit=1 n=3
step n=4
----
1  a.0 0:64   free=9
   waiting: a.1 a.2
2  a.0 64:69   free=8
   waiting: a.1 a.2
3  a.0 69:70*  a.1 69:70*   free=7
   a.0: 70
   a.0 ends: length, 1 generated
   a.1: 70
   a.1 ends: length, 1 generated
   waiting: a.2
4  a.2 0:64   free=9
