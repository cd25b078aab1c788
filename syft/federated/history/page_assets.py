"""The style and the script of the page of a run. Their digests are in its Content-Security-Policy."""

STYLE = """
:root{--ground:#f6f7f9;--card:#fff;--ink:#1b1f24;--soft:#5c6570;--line:#dde1e6;--accent:#1f6fb4;--good:#1f7a43;--bad:#b3261e}
@media (prefers-color-scheme:dark){:root{--ground:#14171b;--card:#1d2126;--ink:#e7eaee;--soft:#9da7b3;--line:#343a42;
--accent:#62aaea;--good:#5cc486;--bad:#f2847c}}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);font:15px/1.45 system-ui,"Segoe UI",Helvetica,Arial,sans-serif}
main{max-width:1120px;margin:0 auto;padding:24px 16px 48px}
header{display:flex;flex-wrap:wrap;align-items:center;gap:8px 16px}
h1{font-size:24px;margin:0}
h2{font-size:17px;margin:28px 0 10px}
p{margin:6px 0}
.badge{font-weight:600;padding:2px 12px;border-radius:999px;border:1px solid currentColor}
.live{color:var(--accent)}.done{color:var(--good)}.early,.ending{color:var(--bad)}
.about,.note,.remark,dt{color:var(--soft)}
.about,.ending,td:first-child{overflow-wrap:anywhere}
progress,meter{display:block;width:100%}
progress{height:10px;margin:10px 0 0;accent-color:var(--accent)}
meter{height:14px;margin-top:4px}
.tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(150px,1fr));gap:10px;margin:16px 0 0}
.tiles>div,.chart,.scroll{background:var(--card);border:1px solid var(--line);border-radius:8px}
.tiles>div{padding:10px 12px}
dt,.remark{font-size:13px}
dt,dd{overflow-wrap:anywhere}
dd{margin:0;font-size:19px;font-weight:600;font-variant-numeric:tabular-nums}
dd.remark{font-size:13px;font-weight:400}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,420px),1fr));gap:10px}
.chart{margin:0;padding:8px}
.chart svg{display:block;width:100%;height:auto}
.chart .ground{fill:var(--card)}.chart .ink{fill:var(--ink)}
.chart .grid{stroke:var(--line)}.chart .axis{stroke:var(--soft)}
@media (prefers-color-scheme:dark){.chart polyline,.chart circle{filter:brightness(1.6)}}
@media (max-width:480px){.chart svg{font-size:15px}}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:14px;font-variant-numeric:tabular-nums}
th,td{padding:6px 12px;text-align:left;border-bottom:1px solid var(--line)}
th{color:var(--soft);font-weight:600;white-space:nowrap}
td:first-child{min-width:5em}
tr:last-child td{border-bottom:0}
.number{text-align:right;white-space:nowrap}
"""

# Each message has the sections that changed, rendered and escaped by the server.
SCRIPT = """
const events = new EventSource("events");
events.onmessage = (message) => {
  for (const [id, text] of Object.entries(JSON.parse(message.data))) {
    const element = id === "title" ? document.querySelector("title") : document.getElementById(id);
    if (element) element.innerHTML = text;
  }
};
events.addEventListener("end", () => events.close());
events.onerror = () => {
  const badge = document.querySelector(".badge");
  if (!badge) return;
  badge.textContent = "Connection lost";
  badge.className = "badge early";
};
"""
