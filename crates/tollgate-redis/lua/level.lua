-- Token bucket and leaky bucket: "time units rest". The level is units + rest / period; it sinks by quota / period units each microsecond.
local function level(key)
  local quota, period, burst = number(), number(), number()
  local time, units, rest, changed

  -- What sinks in so many microseconds; all there ever is when that is more than a double holds exactly.
  local function sinks(micros)
    local part = fmod(micros, period)
    local periods = (micros - part) / period
    if periods * quota > MAX_UNITS then return MAX_UNITS + 1, 0 end
    local u, r = muldiv(quota, part, period)
    return periods * quota + u, r
  end

  -- (u, r) - (v, s), at least zero.
  local function minus(u, r, v, s)
    u, r = u - v, r - s
    if r < 0 then u, r = u - 1, r + period end
    if u < 0 then return 0, 0 end
    return u, r
  end

  -- The level now, or at the state's own time if that lies ahead.
  local function at_now()
    if not time then return now, 0, 0 end
    if now <= time then return time, units, rest end
    return now, minus(units, rest, sinks(now - time))
  end

  local function put(t, u, r)
    if u == 0 and r == 0 then t = nil end
    changed = changed or t ~= time or u ~= units or r ~= rest
    time, units, rest = t, u, r
  end

  return {
    capacity = burst,
    load = function() time, units, rest = read(key, '^(%d+) (%d+) (%d+)$') end,
    fits = function(cost)
      local _, u, r = at_now()
      return u + cost < burst or (u + cost == burst and r == 0)
    end,
    room = function()
      local _, u, r = at_now()
      return max(burst - u - (r > 0 and 1 or 0), 0)
    end,
    fresh = function()
      local _, u, r = at_now()
      return u == 0 and r == 0
    end,
    charge = function(more)
      local t, u, r = at_now()
      u = u + more
      if u >= MAX_UNITS then u, r = MAX_UNITS, 0 end
      put(t, u, r)
      changed = true
    end,
    -- At most what has not sunk since: these units are taken to have sunk first.
    refund = function(back, _, mark)
      if not time then return end
      local t, u, r = at_now()
      local b, s = back, 0
      if mark and mark < t then b, s = minus(back, 0, sinks(t - mark)) end
      if (b > 0 or s > 0) and (u > 0 or r > 0) then put(t, minus(u, r, b, s)) end
    end,
    set = function(to)
      local t = at_now()
      put(t, to, 0)
    end,
    save = function()
      if not changed then return end
      if not time then return call('DEL', key) end
      write(key, format('%.0f %.0f %.0f', time, units, rest), time - now + (units + 1) * (period / quota))
    end,
    state = function() return time, units, rest end,
  }
end
