module memra

go 1.26
