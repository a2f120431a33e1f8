-- Token bucket and leaky bucket: "time units rest". The level is units + rest / period; it sinks by quota / period units each microsecond.
if algorithm == 'token-bucket' or algorithm == 'leaky-bucket' then
  local quota, period, burst = ARGV[from] + 0, ARGV[from + 1] + 0, ARGV[from + 2] + 0
  cursor = from + 3
  local time, level, rest, changed

  -- (u, r) less what sinks in so many microseconds, at least zero. All is gone when more has sunk than a double holds exactly.
  local function sunk(u, r, micros)
    local part = fmod(micros, period)
    local sinks = (micros - part) / period * quota
    if sinks > MAX_UNITS then return 0, 0 end
    local more, s = muldiv(quota, part, period)
    u, r = u - sinks - more, r - s
    if r < 0 then u, r = u - 1, r + period end
    if u < 0 then return 0, 0 end
    return u, r
  end

  return function(verb, units, _, mark)
    if verb == 'load' then
      time, level, rest = read(key, '^(%d+) (%d+) (%d+)$')
      return
    elseif verb == 'save' then
      if changed and not time then
        call('DEL', key)
      elseif changed then
        write(key, format('%.0f %.0f %.0f', time, level, rest), time - now + (level + 1) * (period / quota))
      end
      return
    elseif verb == 'state' then
      return time, level, rest
    end
    -- The level now, or at the state's own time if that lies ahead.
    local t, u, r = time or now, level or 0, rest or 0
    if time and now > time then
      t, u, r = now, sunk(level, rest, now - time)
    end
    if verb == 'fits' then
      return u + units < burst or (u + units == burst and r == 0)
    elseif verb == 'charge' then
      u, changed = u + units, true
      if u >= MAX_UNITS then u, r = MAX_UNITS, 0 end
    elseif verb == 'take' then
      return max(min(burst - u - (r > 0 and 1 or 0), units), 0)
    elseif verb == 'fresh' then
      return u == 0 and r == 0
    elseif verb == 'set' then
      u, r = units, 0
    elseif verb == 'refund' and time then
      -- At most what has not sunk since: these units are taken to have sunk first.
      local b, s = units, 0
      if mark and mark < t then b, s = sunk(units, 0, t - mark) end
      if (b == 0 and s == 0) or (u == 0 and r == 0) then return end
      u, r = u - b, r - s
      if r < 0 then u, r = u - 1, r + period end
      if u < 0 then u, r = 0, 0 end
    else
      return
    end
    if u == 0 and r == 0 then t = nil end
    changed = changed or t ~= time or u ~= level or r ~= rest
    time, level, rest = t, u, r
  end
end
