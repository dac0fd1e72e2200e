from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import time
def cpu(pid):
    f=Path(f"/proc/{pid}/stat").read_text().rsplit(")",1)[1].split(); return (int(f[11])+int(f[12]))/100
def test_b(plugin, host):
    p=plugin.process.pid; print("start", cpu(p))
    plugin.create("command:remote:Command", connection=host.connection(), create="true"); print("first", cpu(p))
    t=time.time(); a=cpu(p)
    with ThreadPoolExecutor(20) as e: list(e.map(lambda i: plugin.create("command:remote:Command", connection=host.connection(), create="sh -s", stdin="echo hi"), range(40)))
    print("40 conns: cpu", cpu(p)-a, "wall", time.time()-t)
