-- The text of a state, which must look as its algorithm writes it.
local function read(key, pattern)
  local text = call('GET', key)
  if not text then return nil end
  local a, b, c = match(text, pattern)
  if not a then error('TOLLGATE the value of ' .. key .. ' is not a state of this limit') end
  return a + 0, b and b + 0, c and c + 0
end
