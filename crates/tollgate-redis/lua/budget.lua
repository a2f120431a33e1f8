-- Budget: "count". It has no time to live.
if algorithm == 'budget' then
  local quota = ARGV[from] + 0
  cursor = from + 3
  local count, changed

  return function(verb, units)
    if verb == 'load' then
      count = read(key, '^(%d+)$')
      return
    elseif verb == 'save' then
      if changed and count then
        call('SET', key, format('%.0f', count))
      elseif changed then
        call('DEL', key)
      end
      return
    elseif verb == 'state' then
      return count
    end
    local used = count or 0
    if verb == 'fits' then
      return used + units <= quota
    elseif verb == 'charge' then
      count, changed = min(used + units, MAX_UNITS), true
    elseif verb == 'take' then
      return max(min(quota - used, units), 0)
    elseif verb == 'fresh' then
      return not count
    elseif verb == 'set' or (verb == 'refund' and count) then
      local left = verb == 'set' and units or max(used - units, 0)
      count, changed = left > 0 and left or nil, true
    end
  end
end
