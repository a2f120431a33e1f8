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
