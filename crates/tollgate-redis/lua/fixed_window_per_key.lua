-- Fixed window per key: "start count".
if algorithm == 'fixed-window-per-key' then
  local quota, period, charge_denied = ARGV[from] + 0, ARGV[from + 1] + 0, ARGV[from + 2] == '1'
  cursor = from + 3
  local start, count, changed

  return function(verb, units, _, mark)
    if verb == 'load' then
      start, count = read(key, '^(%d+) (%d+)$')
      return
    elseif verb == 'save' then
      if changed then write(key, format('%.0f %.0f', start, count), start + period - now) end
      return
    elseif verb == 'state' then
      return start, count
    end
    local open = start and now - start < period
    local used = open and count or 0
    if verb == 'fits' then
      return used + units <= quota
    elseif verb == 'charge' or (verb == 'denied' and charge_denied and units > 0) then
      if not open then start = now end
      count, changed = min(used + units, MAX_UNITS), true
      return units
    elseif verb == 'take' then
      return max(min(quota - used, units), 0)
    elseif verb == 'fresh' then
      return not open
    elseif verb == 'set' then
      start, count, changed = now, units, true
    elseif verb == 'refund' then
      if not open or (mark and mark ~= start) then return end
      local less = max(count - units, 0)
      count, changed = less, less ~= count
    end
  end
end
