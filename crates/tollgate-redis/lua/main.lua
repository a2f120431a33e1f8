-- Every operation, from what a machine can do: as `algorithm::step` of the library does, which is the definition.

-- Whether it is allowed, what is charged, and what a refused attempt waits for if that is not its cost.
local function step(m, key, op, cost, at, mark)
  if op == 'hit' and cost > 0 then
    if m('fits', cost) then
      m('charge', cost)
      return true, cost
    end
    return false, m('denied', cost) or 0
  elseif op == 'peek' then
    return m('fits', cost), 0
  elseif op == 'take' and cost > 0 then
    local granted = m('take', cost)
    if granted > 0 then
      m('charge', granted)
      return true, granted
    end
    return false, m('denied', 1) or 0, 1
  elseif op == 'charge' then
    if cost > 0 then m('charge', cost) else m('attempt') end
    return true, cost
  elseif op == 'refund' then
    if cost > 0 then m('refund', cost, at, mark) end
    return true, 0
  elseif op == 'set' then
    m('set', cost)
    return true, 0
  elseif op == 'refused' then
    -- What one limit says of a hit that the group refuses: whether it alone would let it pass, and what it charges.
    return m('fits', cost), m('denied', cost) or 0
  elseif op == 'count' then
    -- What a ban does when a limit that it watches refuses: it may begin.
    m('denied', 0)
    return m('fits', 0), 0
  elseif op == 'reset' then
    -- What is no state of this limit is removed too.
    local loaded = pcall(m, 'load')
    local was_there = not loaded or not m('fresh')
    call('DEL', key)
    m('load')
    return was_there, 0
  end
  -- A hit or a take that costs nothing.
  m('attempt')
  return m('fits', 0), 0
end

-- Reads what is asked for the next key, and its state.
local function ask(key)
  local algorithm, op, cost = ARGV[cursor], ARGV[cursor + 1], ARGV[cursor + 2] + 0
  local at, mark
  cursor = cursor + 3
  if op == 'refund' then
    at, mark = ARGV[cursor] + 0, ARGV[cursor + 1] + 0
    cursor = cursor + 2
    -- Without a receipt: the newest units.
    if at < 0 then at, mark = nil, nil end
  end
  local m = machine(algorithm, key, op)
  if op ~= 'reset' then m('load') end
  return m, key, op, cost, at, mark
end

-- Five numbers: allowed (1) and whether there is a state (2), units charged, and the state.
local function answer(m, key, op, cost, at, mark)
  local allowed, charged, waits_for = step(m, key, op, cost, at, mark)
  m('save')
  local a, b, c = m('state', not allowed and (waits_for or cost) or nil)
  return (allowed and 1 or 0) + (a and 2 or 0), charged, a or 0, b or 0, c or 0
end

-- The reply: the time, then five numbers for each key.
if #KEYS == 1 then return { now, answer(ask(KEYS[1])) } end

-- All states are read before the first is written, so that a value that is no state fails the call as a whole.
local all = {}
local refused, banned = false, false
for index = 1, #KEYS do
  watches = nil
  local asked = { ask(KEYS[index]) }
  all[index] = asked
  asked.watches = watches
  asked.fits = mode ~= 'together' or asked[1]('fits', asked[4])
  if not asked.fits then
    if watches then banned = true else refused = true end
  end
end

-- The operation of one key of a group. While one ban lasts, nothing but bans is attempted.
local function operation(index, asked)
  if banned then return asked.watches and 'hit' or 'peek' end
  if not refused then return asked[3] end
  if not asked.watches then return 'refused' end
  for watched = index - asked.watches, index - 1 do
    if not all[watched].fits then return 'count' end
  end
  return 'peek'
end

local reply, written = { now }, {}
for index = 1, #all do
  local asked = all[index]
  local m, key = asked[1], asked[2]
  if written[key] and asked[3] ~= 'reset' then m('load') end
  written[key] = true
  local flags, charged, a, b, c = answer(m, key, operation(index, asked), asked[4], asked[5], asked[6])
  local size = #reply
  reply[size + 1], reply[size + 2] = flags, charged
  reply[size + 3], reply[size + 4], reply[size + 5] = a, b, c
end
return reply
