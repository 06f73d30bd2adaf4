-- Runs one of envoy.yaml's Lua filters on a request: lua filter.lua SCRIPT NAME=VALUE...
-- Prints the headers that are left, one a line and in order, or what was answered. A header may stand there several times.
local script = table.remove(arg, 1)
local list = {}
for _, line in ipairs(arg) do
  local name, value = line:match("^(:?[^=]+)=(.*)$")
  list[#list + 1] = {name:lower(), value}
end
local headers = {}
function headers:get(name)
  for _, h in ipairs(list) do if h[1] == name then return h[2] end end
end
function headers:remove(name)
  for i = #list, 1, -1 do if list[i][1] == name then table.remove(list, i) end end
end
setmetatable(headers, {__pairs = function()
  local i = 0
  return function()
    i = i + 1
    if list[i] then return list[i][1], list[i][2] end
  end
end})
local answered
local handle = {}
function handle:headers() return headers end
function handle:respond(h, body) answered = h[":status"] end
assert(loadfile(script))()
envoy_on_request(handle)
if answered then print("answered " .. answered) return end
for _, h in ipairs(list) do print(h[1] .. "=" .. h[2]) end
