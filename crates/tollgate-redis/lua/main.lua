-- Every operation, from the primitives of a machine: as `algorithm::step` of the library does, which is the definition.

local function machine(algorithm, key, op)
  if algorithm == 'gcra' then return gcra(key, op) end
  if algorithm == 'token-bucket' or algorithm == 'leaky-bucket' then return level(key) end
  if algorithm == 'fixed-window' then return fixed_window(key) end
  if algorithm == 'fixed-window-per-key' then return fixed_window_per_key(key) end
  if algorithm == 'elastic-window' then return elastic_window(key) end
  if algorithm == 'sliding-window' then return sliding_window(key) end
  return moving_window(key)
end

-- What a refused attempt leaves behind: nothing, a pushed elastic window, or its count where the limit says so.
local function denied(m, cost)
  if m.charge_denied and cost > 0 then
    m.charge(cost)
    return false, cost
  end
  if m.attempt then m.attempt() end
  return false, 0
end

local function hit(m, cost)
  if not m.fits(cost) then
    if cost > 0 then return denied(m, cost) end
  elseif cost > 0 then
    m.charge(cost)
    return true, cost
  end
  if m.attempt then m.attempt() end
  return m.fits(cost), 0
end

-- The part of one limit in a hit that the group refuses: whether it alone would let it pass, and what it charges.
local function refuse(m, cost)
  local allowed = m.fits(cost)
  local _, charged = denied(m, cost)
  return allowed, charged
end

local function step(m, op, cost)
  if op == 'hit' then return hit(m, cost) end
  if op == 'peek' then return m.fits(cost), 0 end
  if op == 'take' then
    if cost == 0 then return hit(m, 0) end
    local granted = m.take and m.take(cost) or not m.take and min(m.room(), cost)
    if granted > 0 then
      m.charge(granted)
      return true, granted
    end
    -- What it waits for is the first unit.
    m.cost = 1
    return denied(m, 1)
  end
  if op == 'charge' then
    if cost > 0 then m.charge(cost) elseif m.attempt then m.attempt() end
    return true, cost
  end
  if op == 'refund' then
    if cost > 0 then m.refund(cost, m.at, m.mark) end
    return true, 0
  end
  if op == 'set' then
    m.set(cost)
    return true, 0
  end
  -- reset
  local was_there = not m.fresh()
  call('DEL', m.key)
  m.load()
  return was_there, 0
end

-- All states are read before the first is written, so that a value that is no state fails the call as a whole.
local all = {}
for index, key in ipairs(KEYS) do
  local algorithm, op, cost = word(), word(), number()
  local at, mark
  if op == 'refund' then
    at, mark = number(), number()
    -- Without a receipt: as if charged now.
    if at < 0 then at, mark = nil, nil end
  end
  local m = machine(algorithm, key, op)
  m.key, m.op, m.cost, m.at, m.mark = key, op, cost, at, mark
  m.load()
  all[index] = m
end

local verb = step
if mode == 'together' then
  verb = function(m, _, cost) return hit(m, cost) end
  for _, m in ipairs(all) do
    if not m.fits(m.cost) then
      verb = function(refusing, _, cost) return refuse(refusing, cost) end
      break
    end
  end
end

-- The time, then five numbers for each: allowed (1) and whether there is a state (2), units charged, and the state.
local reply = { now }
local written = {}
for _, m in ipairs(all) do
  if written[m.key] then m.load() end
  local allowed, charged = verb(m, m.op, m.cost)
  m.save()
  written[m.key] = true
  local a, b, c = m.state(not allowed and m.cost or nil)
  local size = #reply
  reply[size + 1] = (allowed and 1 or 0) + (a and 2 or 0)
  reply[size + 2] = charged
  reply[size + 3] = a or 0
  reply[size + 4] = b or 0
  reply[size + 5] = c or 0
end
return reply
