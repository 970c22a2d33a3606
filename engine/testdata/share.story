# What decodes comes first. A prompt's rows ride with it in chunks of 64 or more, as often as they slow decoding down by no more than 1.4
# times. One step measures what decoding takes alone.
pool pages=100 sequences=4 rows=256
add a prompt=4 limit=40
step took=10ms
step took=10ms
add p prompt=300 limit=2
step took=18ms
----
1  a 0:4*   free=99
   a: 4
2  a 4:5*   free=99
   a: 5
3  a 5:6*  p 0:64   free=98
   a: 6

# 64 rows make a step 8 ms longer, twice what a step may be: every other carries them.
step took=10ms
step took=18ms
step took=10ms
step took=18ms
----
4  a 6:7*   free=98
   a: 7
5  a 7:8*  p 64:128   free=97
   a: 8
6  a 8:9*   free=97
   a: 9
7  a 9:10*  p 128:192   free=96
   a: 10

# A prompt that has the device to itself has all rows.
cancel a
step
----
   a: cancelled
8  p 192:300*   free=95
   p: 300

# Whoever is patient holds no prompt up.
pool pages=100 sequences=4 rows=256
add a prompt=4 limit=40 patient=1
step took=10ms
add p prompt=300 limit=2
step n=2 took=40ms
----
1  a 0:4*   free=99
   a: 4
2  a 4:5*  p 0:255   free=95
   a: 5
3  a 5:6*  p 255:300*   free=94
   a: 6
   p: 300
