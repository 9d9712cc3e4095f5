"""One model on several devices: a process for each rank, of which the first schedules and the others follow."""
