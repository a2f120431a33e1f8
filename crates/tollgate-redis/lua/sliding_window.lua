-- Sliding window: "start previous current".
if algorithm == 'sliding-window' then
  local quota, period = ARGV[from] + 0, ARGV[from + 1] + 0
  cursor = from + 2
  local start, previous, current, changed

  return function(verb, units, _, mark)
    if verb == 'load' then
      start, previous, current = read(key, '^(%d+) (%d+) (%d+)$')
      return
    elseif verb == 'save' then
      if changed then
        local ends = start - now + (current > 0 and 2 * period or period)
        write(key, format('%.0f %.0f %.0f', start, previous, current), ends)
      end
      return
    elseif verb == 'state' then
      return start, previous, current
    end
    -- The windows as they stand now: shifted when the current one has ended, new when both have.
    local fresh = not start or now - start >= (current > 0 and 2 * period or period)
    local s, p, c = now, 0, 0
    if not fresh then
      if now - start < period then s, p, c = start, previous, current else s, p = start + period, current end
    end
    if verb == 'fits' or verb == 'take' then
      -- Units in use: what of the previous window is still in sight, rounded up, and the current one.
      local left = min(period - (now - s), period)
      local used = p + c
      if left < period and p > 0 then
        local seen, rest = muldiv(p, left, period)
        used = seen + (rest > 0 and 1 or 0) + c
      end
      if verb == 'fits' then return used + units <= quota end
      return max(min(quota - used, units), 0)
    elseif verb == 'charge' then
      start, previous, current, changed = s, p, min(c + units, MAX_UNITS), true
    elseif verb == 'fresh' then
      return fresh
    elseif verb == 'set' then
      start, previous, current, changed = now, 0, units, true
    elseif verb == 'refund' and not fresh then
      if not mark then
        -- From the current window, and what it does not have from the one before.
        p = max(p - max(units - c, 0), 0)
        c = max(c - units, 0)
      elseif mark == s then
        c = max(c - units, 0)
      elseif mark == s - period then
        p = max(p - units, 0)
      else
        return
      end
      changed = s ~= start or p ~= previous or c ~= current
      start, previous, current = s, p, c
    end
  end
end
