-- Sliding window: "start previous current".
local function sliding_window(key)
  local quota, period = number(), number()
  local start, previous, current, changed

  local function fresh()
    return not start or now - start >= (current > 0 and 2 * period or period)
  end

  -- The windows as they stand now: shifted when the current one has ended, new when both have.
  local function windows()
    if fresh() then return now, 0, 0 end
    if now - start < period then return start, previous, current end
    return start + period, current, 0
  end

  -- Units in use: what of the previous window is still in sight, rounded up, and the current one.
  local function used()
    local s, p, c = windows()
    local left = min(period - (now - s), period)
    if left == period then return p + c end
    local units, rest = muldiv(p, left, period)
    return units + (rest > 0 and 1 or 0) + c
  end

  return {
    capacity = quota,
    load = function() start, previous, current = read(key, '^(%d+) (%d+) (%d+)$') end,
    fits = function(cost) return used() + cost <= quota end,
    room = function() return max(quota - used(), 0) end,
    fresh = fresh,
    charge = function(units)
      start, previous, current = windows()
      current, changed = min(current + units, MAX_UNITS), true
    end,
    refund = function(units, _, mark)
      if fresh() then return end
      local s, p, c = windows()
      if not mark or mark == s then
        c = max(c - units, 0)
      elseif mark == s - period then
        p = max(p - units, 0)
      else
        return
      end
      changed = s ~= start or p ~= previous or c ~= current
      start, previous, current = s, p, c
    end,
    set = function(units) start, previous, current, changed = now, 0, units, true end,
    save = function()
      if changed then
        local ends = start - now + (current > 0 and 2 * period or period)
        write(key, format('%.0f %.0f %.0f', start, previous, current), ends)
      end
    end,
    state = function() return start, previous, current end,
  }
end
