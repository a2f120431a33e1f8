-- The mode, the keys and the time.
local KEYS, ARGV, mode, call = KEYS, ARGV, ARGV[1], redis.call
-- Where Redis was told only of the first key, the names of all stand behind the arguments, and then their number.
if mode == 'narrow each' or mode == 'narrow together' then
  local last = #ARGV
  KEYS = { unpack(ARGV, last - ARGV[last], last - 1) }
  mode = string.sub(mode, 8)
end

-- A key is kept a little longer than it matters: a server that takes over may be behind this one. Much longer where the time is not the server's.
local now, grace = ARGV[2] + 0, 3600000
if now < 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
  grace = 1000
end

