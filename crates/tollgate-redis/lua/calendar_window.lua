-- Calendar window: "start end count". The caller sends four edges: those of the windows before, at and after its own time.
if algorithm == 'calendar' then
  local quota, charge_denied = ARGV[from] + 0, ARGV[from + 1] == '1'
  local before, from_edge, to_edge, after = ARGV[from + 2] + 0, ARGV[from + 3] + 0, ARGV[from + 4] + 0, ARGV[from + 5] + 0
  cursor = from + 6
  if now < before or now >= after then error('TOLLGATE CLOCK') end
  -- The caller's window at the time of this server.
  local opens, ends = from_edge, to_edge
  if now < from_edge then opens, ends = before, from_edge elseif now >= to_edge then opens, ends = to_edge, after end
  local start, finish, count, changed

  -- The window that counts, with the end that it has after a hit. An end before the start is that of an earlier window.
  local function current()
    if not start then return opens, ends, 0 end
    if now >= finish then return max(opens, finish), ends, 0 end
    return start, (ends < finish and ends > start) and ends or finish, count
  end

  return function(verb, units, _, mark)
    if verb == 'load' then
      start, finish, count = read(key, '^(%d+) (%d+) (%d+)$')
      return
    elseif verb == 'save' then
      if changed then write(key, format('%.0f %.0f %.0f', start, finish, count), finish - now) end
      return
    elseif verb == 'state' then
      return start, finish, count
    end
    local open = start and now < finish
    local used = open and count or 0
    if verb == 'fits' then
      return used + units <= quota
    elseif verb == 'charge' or (verb == 'denied' and charge_denied and units > 0) then
      start, finish, count = current()
      count, changed = min(count + units, MAX_UNITS), true
      return units
    elseif verb == 'attempt' or verb == 'denied' then
      if open then
        local _, moved = current()
        if moved ~= finish then finish, changed = moved, true end
      end
    elseif verb == 'take' then
      return max(min(quota - used, units), 0)
    elseif verb == 'fresh' then
      return not open
    elseif verb == 'set' then
      start, finish = current()
      count, changed = units, true
    elseif verb == 'refund' then
      if not open or (mark and mark ~= start) then return end
      local less = max(count - units, 0)
      count, changed = less, less ~= count
    end
  end
end
