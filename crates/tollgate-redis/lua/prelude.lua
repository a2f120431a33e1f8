-- Numbers are doubles: every value below stays under 2^53, where they are exact. Times are microseconds since 1970, counts are units.

local MAX_UNITS = 1000000000000000
local EXACT = 9007199254740992

local floor, ceil, fmod, min, max = math.floor, math.ceil, math.fmod, math.min, math.max
local format, match = string.format, string.match
local call = redis.call

-- Arguments are read one after another: first the time, then what each machine wants.
local cursor = 0
local function word()
  cursor = cursor + 1
  return ARGV[cursor]
end
local function number()
  cursor = cursor + 1
  return tonumber(ARGV[cursor])
end

local mode = word()
local now = number()
-- A key is kept a little longer than it matters: a server that takes over may be behind this one. Much longer where the time is not the server's.
local grace = 3600000
if now < 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
  grace = 1000
end

-- The text of a state, which must look as its algorithm writes it.
local function read(key, pattern)
  local text = call('GET', key)
  if not text then return nil end
  local a, b, c = match(text, pattern)
  if not a then error('TOLLGATE the value of ' .. key .. ' is not a state of this limit') end
  return tonumber(a), tonumber(b), tonumber(c)
end

-- How long to keep a state that matters for so many microseconds. Redis refuses what is beyond its calendar.
local function lifetime(micros)
  return format('%.0f', min(ceil(max(micros, 0) / 1000) + grace, 1e15))
end

local function write(key, text, micros)
  call('SET', key, text, 'PX', lifetime(micros))
end

-- a * b / m and what is left, exactly. b is below m, and m at most 2^52.
local function muldiv(a, b, m)
  local product = a * b
  if product < EXACT then
    local rest = fmod(product, m)
    return (product - rest) / m, rest
  end
  -- Digit by digit from the highest, in the largest base with which base * m stays exact.
  local _, bits = math.frexp(m)
  local base = 2 ^ (53 - bits)
  local scale = 1
  while scale * base <= a do scale = scale * base end
  local quotient, rest = 0, 0
  while scale >= 1 do
    local digit = floor(a / scale)
    a = a - digit * scale
    scale = scale / base
    local high = fmod(rest * base, m)
    local low = fmod(digit * b, m)
    quotient = quotient * base + (rest * base - high) / m + (digit * b - low) / m
    rest = high + low
    if rest >= m then
      rest = rest - m
      quotient = quotient + 1
    end
  end
  return quotient, rest
end
