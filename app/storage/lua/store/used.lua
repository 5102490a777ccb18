return capacity - math.max(0, capacity + math.floor((now - arrival) / interval))
