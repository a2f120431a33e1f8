-- Fixed window: "window count", windows numbered from 1970.
if algorithm == 'fixed-window' then
  local quota, period, charge_denied = ARGV[from] + 0, ARGV[from + 1] + 0, ARGV[from + 2] == '1'
  cursor = from + 3
  local phase = fmod(now, period)
  local today = (now - phase) / period
  local window, count, changed

  return function(verb, units, _, mark)
    if verb == 'load' then
      window, count = read(key, '^(%d+) (%d+)$')
      return
    elseif verb == 'save' then
      if changed then write(key, format('%.0f %.0f', window, count), (window - today + 1) * period - phase) end
      return
    elseif verb == 'state' then
      return window, count
    end
    -- The window that counts: the clock's, or the state's if that is later.
    local current, used = today, 0
    if window and window >= today then current, used = window, count end
    if verb == 'fits' then
      return used + units <= quota
    elseif verb == 'charge' or (verb == 'denied' and charge_denied and units > 0) then
      window, count, changed = current, min(used + units, MAX_UNITS), true
      return units
    elseif verb == 'take' then
      return max(min(quota - used, units), 0)
    elseif verb == 'fresh' then
      return not window or window < today
    elseif verb == 'set' then
      window, count, changed = current, units, true
    elseif verb == 'refund' then
      if not window or window < today or (mark and mark ~= window) then return end
      local less = max(count - units, 0)
      count, changed = less, less ~= count
    end
  end
end
