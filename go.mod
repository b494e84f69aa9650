module xla_go

go 1.26
