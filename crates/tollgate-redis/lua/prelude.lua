-- Numbers are doubles: every value below stays under 2^53, where they are exact. Times are microseconds since 1970, counts are units.
--
-- A script starts anew with every call, and each function and table that it makes costs more than a calculation does. So a machine is one function,
-- what only some algorithms need is made only for them, and `+ 0` makes a number of a text, because `tonumber` is a call.

local MAX_UNITS = 1000000000000000
local EXACT = 9007199254740992

local floor, fmod, min, max = math.floor, math.fmod, math.min, math.max
local format, match = string.format, string.match

-- Arguments are read one after another: mode and time, then what each machine wants.
local cursor = 3

-- Of a ban: how many keys before its own it watches.
local watches

-- How long to keep a state that matters for so many microseconds, in milliseconds. Redis refuses what is beyond its calendar.
local function lifetime(micros)
  return min(math.ceil(max(micros, 0) / 1000) + grace, 1e15)
end

local function write(key, text, micros)
  call('SET', key, text, 'PX', lifetime(micros))
end
