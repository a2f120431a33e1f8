-- Moving window: a list. First the running total before the first entry, then for each entry its time and the running total with it. Totals let
-- every search halve its range, and dropping the first k entries is one LTRIM that leaves the new base in front.
local function moving_window(key)
  local quota, period = number(), number()
  local base, oldest, newest, total, length, dirty

  local function item(index) return tonumber(call('LINDEX', key, index)) end
  local function time_of(entry) return item(2 * entry + 1) end
  local function total_of(entry) return item(2 * entry + 2) end
  local function total_before(entry) return entry == 0 and base or item(2 * entry) end

  local function entries()
    length = length or (call('LLEN', key) - 1) / 2
    return length
  end

  -- The first entry from `from` on for which `holds` is true: steps that double, then halves.
  local function first(from, holds)
    local low, step, count = from, 1, entries()
    local high = low
    while high < count and not holds(high) do
      low = high + 1
      high = min(high + step, count)
      step = step * 2
    end
    while low < high do
      local middle = floor((low + high) / 2)
      if holds(middle) then high = middle else low = middle + 1 end
    end
    return low
  end

  local function time() return newest and max(newest, now) or now end

  local function first_live()
    local t = time()
    if not newest or t - oldest < period then return 0 end
    if t - newest >= period then return entries() end
    return first(0, function(entry) return t - time_of(entry) < period end)
  end

  local function used()
    if not newest then return 0 end
    local live = first_live()
    return total - (live == 0 and base or total_before(live))
  end

  -- RPUSH takes only so many arguments.
  local function push(items)
    for from = 1, #items, 4000 do call('RPUSH', key, unpack(items, from, min(from + 3999, #items))) end
  end

  -- All totals from a base of zero, before they pass what is exact.
  local function rebase()
    local items = call('LRANGE', key, 0, -1)
    for index = 1, #items, 2 do items[index] = format('%.0f', items[index] - base) end
    call('DEL', key)
    push(items)
    base, total = 0, total - base
  end

  local function load()
    local head = call('LRANGE', key, 0, 1)
    base, oldest = tonumber(head[1]), tonumber(head[2])
    newest, total, length = nil, nil, nil
    if not base then return end
    local tail = call('LRANGE', key, -2, -1)
    newest, total = tonumber(tail[1]), tonumber(tail[2])
    if not (oldest and newest and total) then
      error('TOLLGATE the value of ' .. key .. ' is not a state of this limit')
    end
  end

  return {
    capacity = quota,
    load = load,
    fits = function(cost) return used() + cost <= quota end,
    room = function() return max(quota - used(), 0) end,
    fresh = function() return not newest or newest + period <= now end,
    charge = function(units)
      dirty = true
      local at = time()
      if not newest then
        call('RPUSH', key, 0, format('%.0f', at), format('%.0f', units))
        return load()
      end
      local live = first_live()
      if live > 0 then
        base = total_before(live)
        call('LTRIM', key, 2 * live, -1)
      end
      units = min(units, MAX_UNITS - (total - base))
      if total + units > 4000000000000000 and base > 0 then rebase() end
      total = total + units
      if newest == at then
        call('LSET', key, -1, format('%.0f', total))
      else
        call('RPUSH', key, format('%.0f', at), format('%.0f', total))
      end
      load()
    end,
    refund = function(units, _, mark)
      if not newest then return end
      mark = mark or newest
      local entry = first(0, function(index) return time_of(index) >= mark end)
      if entry >= entries() or time_of(entry) ~= mark or entry < first_live() then return end
      local there = total_of(entry) - total_before(entry)
      local back = min(units, there)
      if back == 0 and there > 0 then return end
      dirty = true
      local tail = call('LRANGE', key, 2 * entry + 1, -1)
      for index = 2, #tail, 2 do tail[index] = format('%.0f', tail[index] - back) end
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
    end,
    set = function(units)
      dirty = true
      local at = time()
      call('DEL', key)
      if units > 0 then call('RPUSH', key, 0, format('%.0f', at), format('%.0f', units)) end
      load()
    end,
    save = function()
      if dirty and newest then call('PEXPIRE', key, lifetime(newest + period - now)) end
    end,
    -- The log stays here: what is used, the newest entry, and when a refused cost passes.
    state = function(refused)
      local units = used()
      if not newest then return nil end
      local retry = 0
      if refused and refused <= quota then
        local live = first_live()
        local before = total_before(live)
        local leaves = units + refused - quota
        retry = time_of(first(live, function(entry) return total_of(entry) - before >= leaves end)) + period
      end
      return units, newest, retry
    end,
  }
end
