-- Moving window: a list. First the running total before the first entry, then for each entry its time and the running total with it. Totals let
-- every search halve its range, and dropping the first k entries is one LTRIM that leaves the new base in front.
if algorithm == 'moving-window' then
  local quota, period = ARGV[from] + 0, ARGV[from + 1] + 0
  cursor = from + 2
  -- How the list begins, its base, its first and last time and its last total; nothing of it where there is no list.
  local head, base, oldest, newest, total
  -- The first entry that counts (false if none does) and the running total before it, once somebody has asked.
  local live, before
  local dirty

  local function load()
    head = call('LRANGE', key, 0, 4)
    local tail, last = head, #head
    newest, before = nil, nil
    if last == 0 then return end
    if last == 5 then tail, last = call('LRANGE', key, -2, -1), 2 end
    base, oldest = tonumber(head[1]), tonumber(head[2])
    newest, total = tonumber(tail[last - 1]), tonumber(tail[last])
    if not (base and oldest and newest and total) then
      error('TOLLGATE the value of ' .. key .. ' is not a state of this limit')
    end
  end

  local function item(index)
    local text = head[index + 1] or call('LINDEX', key, index)
    return text and text + 0
  end

  -- The first entry from `from` on for which `holds` is true, or the place behind the last: steps that double, then halves.
  local function first(low, holds)
    local high, step = low, 1
    while not holds(high) do
      low, high, step = high + 1, high + step, step * 2
    end
    while low < high do
      local middle = floor((low + high) / 2)
      if holds(middle) then high = middle else low = middle + 1 end
    end
    return low
  end

  -- Units that count now.
  local function used()
    if not newest then return 0 end
    if not before then
      local t = max(newest, now)
      if t - oldest < period then
        live, before = 0, base
      elseif t - newest >= period then
        live, before = false, total
      else
        live = first(1, function(entry)
          local at = item(2 * entry + 1)
          return not at or t - at < period
        end)
        before = item(2 * live)
      end
    end
    return total - before
  end

  -- RPUSH takes only so many arguments.
  local function push(items)
    for start = 1, #items, 4000 do call('RPUSH', key, unpack(items, start, min(start + 3999, #items))) end
  end

  local function charge(units)
    local at = newest and max(newest, now) or now
    local in_use = used()
    dirty = true
    if in_use == 0 and not live then
      -- Nothing counts any more.
      if newest then call('DEL', key) end
      base, total = 0, units
      call('RPUSH', key, 0, at, units)
    else
      if live > 0 then call('LTRIM', key, 2 * live, -1) end
      base = before
      units = min(units, MAX_UNITS - in_use)
      if total + units > 4000000000000000 and base > 0 then
        -- All totals from a base of zero, before they pass what is exact.
        local items = call('LRANGE', key, 0, -1)
        for index = 1, #items, 2 do items[index] = items[index] - base end
        call('DEL', key)
        push(items)
        base, total = 0, total - base
      end
      total = total + units
      if newest == at then call('LSET', key, -1, total) else call('RPUSH', key, at, total) end
    end
    -- What the list begins with is not known any more, and not asked for.
    newest, live, before, head = at, 0, base, {}
  end

  -- Without a receipt: from the newest entry backwards.
  local function refund_newest(units)
    local in_use = used()
    if in_use == 0 then return end
    dirty = true
    local left, kept = in_use - min(units, in_use), live
    if left > 0 then
      -- Up to the first entry with which all that is left is reached.
      kept = 1 + first(live, function(entry)
        local sum = item(2 * entry + 2)
        return not sum or sum - before >= left
      end)
    end
    if kept == 0 then
      call('DEL', key)
    else
      call('LTRIM', key, 0, 2 * kept)
      if left > 0 then call('LSET', key, -1, before + left) end
    end
    load()
  end

  local function refund(units, mark)
    if not mark then return refund_newest(units) end
    local entry = first(0, function(index)
      local at = item(2 * index + 1)
      return not at or at >= mark
    end)
    used()
    if item(2 * entry + 1) ~= mark or not live or entry < live then return end
    local there = item(2 * entry + 2) - item(2 * entry)
    local back = min(units, there)
    if back == 0 and there > 0 then return end
    dirty = true
    local tail = call('LRANGE', key, 2 * entry + 1, -1)
    for index = 2, #tail, 2 do tail[index] = tail[index] - back end
    if back == there then
      table.remove(tail, 1)
      table.remove(tail, 1)
    end
    call('LTRIM', key, 0, 2 * entry)
    if entry == 0 and #tail == 0 then
      call('DEL', key)
    else
      push(tail)
    end
    load()
  end

  return function(verb, units, _, mark)
    if verb == 'load' then
      load()
    elseif verb == 'fits' then
      return used() + units <= quota
    elseif verb == 'charge' then
      charge(units)
    elseif verb == 'save' then
      if dirty and newest then call('PEXPIRE', key, lifetime(newest + period - now)) end
    elseif verb == 'state' then
      -- The log stays here. The answer is the units in use, the newest entry, and when the refused
      -- cost passes, or one unit if nothing is left.
      if not newest then return nil end
      local in_use, retry = used(), 0
      if not units and in_use >= quota then units = 1 end
      if units and units <= quota then
        local leaves = before + in_use + units - quota
        local entry = first(live, function(index)
          local sum = item(2 * index + 2)
          return not sum or sum >= leaves
        end)
        retry = item(2 * entry + 1) + period
      end
      return in_use, newest, retry
    elseif verb == 'take' then
      return max(min(quota - used(), units), 0)
    elseif verb == 'fresh' then
      return not newest or newest + period <= now
    elseif verb == 'set' then
      dirty = true
      local at = newest and max(newest, now) or now
      call('DEL', key)
      if units > 0 then call('RPUSH', key, 0, at, units) end
      load()
    elseif verb == 'refund' and newest then
      refund(units, mark)
    end
  end
end
