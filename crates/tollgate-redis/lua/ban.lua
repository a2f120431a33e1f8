-- Ban: "start end level·2^40+count". It counts the refusals of the limits before it, and no units.
if algorithm == 'ban' then
  local after, period, length, longest = ARGV[from] + 0, ARGV[from + 1] + 0, ARGV[from + 2] + 0, ARGV[from + 3] + 0
  local push = ARGV[from + 4] == '1'
  watches = ARGV[from + 5] + 0
  cursor = from + 6
  local LEVELS, MAX_LEVEL = 1099511627776, 63
  local start, ends, count, level, there, changed

  local function span() return min(longest, length * 2 ^ level) end

  return function(verb)
    if verb == 'load' then
      local packed
      start, ends, packed = read(key, '^(%d+) (%d+) (%d+)$')
      there = start ~= nil
      if not there then start, ends, packed = 0, 0, 0 end
      level = floor(packed / LEVELS)
      count = packed - level * LEVELS
      return
    elseif verb == 'state' then
      if there then return start, ends, level * LEVELS + count end
      return
    end
    local counted = (count > 0 and now - start < period) and count or 0
    local banned = now < ends
    -- Nothing is left of the last ban.
    local forgiven = ends == 0 or now - ends >= longest
    if verb == 'save' then
      if changed then
        local micros = max(count > 0 and start + period - now or 0, ends > 0 and ends + longest - now or 0)
        write(key, format('%.0f %.0f %.0f', start, ends, level * LEVELS + count), micros)
      end
    elseif verb == 'fits' then
      return not banned
    elseif verb == 'fresh' then
      return not banned and counted == 0 and forgiven
    elseif (verb == 'attempt' or verb == 'denied') and banned then
      local pushed = push and max(ends, now + span()) or ends
      if pushed ~= ends then ends, changed = pushed, true end
    elseif verb == 'denied' then
      if forgiven then ends = 0 end
      there, changed = true, true
      if counted + 1 < after then
        if counted == 0 then start = now end
        count = counted + 1
        if forgiven then level = 0 end
      else
        level = forgiven and 0 or min(level + 1, MAX_LEVEL)
        start, ends, count = now, now + span(), 0
      end
    end
  end
end
