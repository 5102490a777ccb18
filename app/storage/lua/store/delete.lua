return remove(ARGV[1])
