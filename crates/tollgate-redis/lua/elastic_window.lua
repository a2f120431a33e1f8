-- Elastic window: "expiry count". Every attempt on a live window pushes its expiry.
local function elastic_window(key)
  local quota, period = number(), number()
  local charge_denied = number() == 1
  local expiry, count, changed

  local function live() return expiry and now < expiry end
  local function used() return live() and count or 0 end
  local function push()
    local pushed = max(expiry or 0, now + period)
    changed = changed or pushed ~= expiry
    expiry = pushed
  end

  return {
    capacity = quota,
    charge_denied = charge_denied,
    load = function() expiry, count = read(key, '^(%d+) (%d+)$') end,
    fits = function(cost) return used() + cost <= quota end,
    room = function() return max(quota - used(), 0) end,
    fresh = function() return not live() end,
    attempt = function()
      if live() then push() end
    end,
    charge = function(units)
      count, changed = min(used() + units, MAX_UNITS), true
      push()
    end,
    refund = function(units, at)
      if not live() or (at and now - at >= period) then return end
      local less = max(count - units, 0)
      count, changed = less, less ~= count
    end,
    set = function(units) expiry, count, changed = now + period, units, true end,
    save = function()
      if changed then write(key, format('%.0f %.0f', expiry, count), expiry - now) end
    end,
    state = function() return expiry, count end,
  }
end
