-- Fixed window per key: "start count".
local function fixed_window_per_key(key)
  local quota, period = number(), number()
  local charge_denied = number() == 1
  local start, count, changed

  local function open() return start and now - start < period end
  local function used() return open() and count or 0 end

  return {
    capacity = quota,
    charge_denied = charge_denied,
    load = function() start, count = read(key, '^(%d+) (%d+)$') end,
    fits = function(cost) return used() + cost <= quota end,
    room = function() return max(quota - used(), 0) end,
    fresh = function() return not open() end,
    charge = function(units)
      if not open() then start, count = now, 0 end
      count, changed = min(count + units, MAX_UNITS), true
    end,
    refund = function(units, _, mark)
      if not open() or (mark and mark ~= start) then return end
      local less = max(count - units, 0)
      count, changed = less, less ~= count
    end,
    set = function(units) start, count, changed = now, units, true end,
    save = function()
      if changed then write(key, format('%.0f %.0f', start, count), start + period - now) end
    end,
    state = function() return start, count end,
  }
end
