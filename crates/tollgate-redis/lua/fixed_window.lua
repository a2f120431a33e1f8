-- Fixed window: "window count", windows numbered from 1970.
local function fixed_window(key)
  local quota, period = number(), number()
  local charge_denied = number() == 1
  local today = (now - fmod(now, period)) / period
  local window, count, changed

  -- The window that counts: the clock's, or the state's if that is later.
  local function current()
    if window and window >= today then return window, count end
    return today, 0
  end

  return {
    capacity = quota,
    charge_denied = charge_denied,
    load = function() window, count = read(key, '^(%d+) (%d+)$') end,
    fits = function(cost)
      local _, used = current()
      return used + cost <= quota
    end,
    room = function()
      local _, used = current()
      return max(quota - used, 0)
    end,
    fresh = function() return not window or window < today end,
    charge = function(units)
      window, count = current()
      count, changed = min(count + units, MAX_UNITS), true
    end,
    refund = function(units, _, mark)
      if not window or window < today or (mark and mark ~= window) then return end
      local less = max(count - units, 0)
      count, changed = less, less ~= count
    end,
    set = function(units)
      window = current()
      count, changed = units, true
    end,
    save = function()
      if changed then
        write(key, format('%.0f %.0f', window, count), (window - today + 1) * period - fmod(now, period))
      end
    end,
    state = function() return window, count end,
  }
end
