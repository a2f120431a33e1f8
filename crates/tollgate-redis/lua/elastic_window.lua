-- Elastic window: "expiry count". Every attempt on a live window pushes its expiry.
if algorithm == 'elastic-window' then
  local quota, period, charge_denied = ARGV[from] + 0, ARGV[from + 1] + 0, ARGV[from + 2] == '1'
  cursor = from + 3
  local expiry, count, changed

  return function(verb, units, at)
    if verb == 'load' then
      expiry, count = read(key, '^(%d+) (%d+)$')
      return
    elseif verb == 'save' then
      if changed then write(key, format('%.0f %.0f', expiry, count), expiry - now) end
      return
    elseif verb == 'state' then
      return expiry, count
    end
    local live = expiry and now < expiry
    local used = live and count or 0
    if verb == 'fits' then
      return used + units <= quota
    elseif verb == 'charge' or (verb == 'denied' and charge_denied and units > 0) then
      count, changed = min(used + units, MAX_UNITS), true
      expiry = max(expiry or 0, now + period)
      return units
    elseif verb == 'attempt' or verb == 'denied' then
      local pushed = live and max(expiry, now + period)
      if live and pushed ~= expiry then expiry, changed = pushed, true end
    elseif verb == 'take' then
      return max(min(quota - used, units), 0)
    elseif verb == 'fresh' then
      return not live
    elseif verb == 'set' then
      expiry, count, changed = now + period, units, true
    elseif verb == 'refund' then
      if not live or (at and now - at >= period) then return end
      local less = max(count - units, 0)
      count, changed = less, less ~= count
    end
  end
end
