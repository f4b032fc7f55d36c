#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a training program plainly and under dcprel, in alternation, and
compares what it prints: losses, parameter hash, step times, peak memory.

  compare.py --lib libdcprel.so [--report dcprel-report] [--runs 1]
             [--modes plain,replay,watch] [--config JSON] NAME -- CMD...

One line a mode; "equal" says whether every loss and the hash are the same as
the plain run's.  Exit status 1 when they are not.  Device memory is what NVML
says is in use on GPU 0, less what was in use before the run.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time


class Nvml:
    def __init__(self):
        try:
            import pynvml
            pynvml.nvmlInit()
            self.n = pynvml
            self.h = pynvml.nvmlDeviceGetHandleByIndex(0)
        except Exception:
            self.n = None

    def used(self):
        return self.n.nvmlDeviceGetMemoryInfo(self.h).used if self.n else 0


def run(cmd, env, nvml, timeout):
    base, peak, done = nvml.used(), 0, threading.Event()

    def watch():
        nonlocal peak
        while not done.is_set():
            peak = max(peak, nvml.used() - base)
            time.sleep(0.004)

    t = threading.Thread(target=watch)
    t.start()
    begin = time.time()
    try:
        p = subprocess.run(cmd, env=env, capture_output=True, text=True,
                           timeout=timeout)
        out, err, rc = p.stdout, p.stderr, p.returncode
    except subprocess.TimeoutExpired as e:
        out = (e.stdout or b"").decode() if isinstance(e.stdout, bytes) else (e.stdout or "")
        err = (e.stderr or b"").decode() if isinstance(e.stderr, bytes) else (e.stderr or "")
        rc = 124
    done.set()
    t.join()
    result = {"rc": rc, "peak": peak, "wall": time.time() - begin, "err": err,
              "values": [], "ms": None, "steps": []}
    for line in out.splitlines():
        try:
            d = json.loads(line)
        except ValueError:
            if line.strip():
                result["values"].append(line.strip())
            continue
        if not isinstance(d, dict):
            continue
        if "loss" in d:
            result["values"].append(d["loss"])
            result["steps"].append(d.get("ms", 0))
        if d.get("end"):
            result["values"].append(d["params_sha256"])
            result["ms"] = d["median_ms"]
            result["torch_peak"] = d.get("peak_bytes")
        if "sample" in d:
            result["values"].append(json.dumps(d["sample"]))
    return result


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--lib", required=True)
    a.add_argument("--report", default="")
    a.add_argument("--runs", type=int, default=1)
    a.add_argument("--modes", default="plain,replay")
    a.add_argument("--config", default="{}")
    a.add_argument("--timeout", type=float, default=240)
    a.add_argument("--json", default="")
    a.add_argument("--show-err", action="store_true")
    a.add_argument("name")
    a.add_argument("cmd", nargs=argparse.REMAINDER)
    a = a.parse_args()
    cmd = a.cmd[1:] if a.cmd[:1] == ["--"] else a.cmd
    nvml = Nvml()
    modes = a.modes.split(",")
    got = {m: [] for m in modes}
    shares = []
    ok = True
    for i in range(a.runs):
        for m in modes:
            env = dict(os.environ)
            with tempfile.TemporaryDirectory() as tmp:
                if m != "plain":
                    env["LD_PRELOAD"] = os.path.abspath(a.lib)
                if m == "replay":
                    config = json.loads(a.config)
                    if a.report:
                        config.setdefault("dcprel", {})["trace_dir"] = tmp + "/trace"
                    with open(tmp + "/dc.json", "w") as f:
                        json.dump(config, f)
                    env["DC_CONFIG"] = tmp + "/dc.json"
                r = run(cmd, env, nvml, a.timeout)
                if m == "replay" and a.report:
                    s = subprocess.run([a.report, "summary", tmp + "/trace",
                                        "--format", "json"],
                                       capture_output=True, text=True)
                    try:
                        r["summary"] = json.loads(s.stdout)
                    except ValueError:
                        r["summary"] = {"error": s.stdout[-300:] + s.stderr[-300:]}
            got[m].append(r)
    first = got[modes[0]][0]
    base_ms = None
    for m in modes:
        rs = got[m]
        same = all(r["values"] == first["values"] for r in rs) and first["rc"] == 0
        good = same and all(r["rc"] == 0 for r in rs)
        ok = ok and good
        times = [r["ms"] for r in rs if r["ms"]]
        ms = statistics.median(times) if times else 0.0
        base_ms = base_ms or ms
        line = (f"{a.name:34s} {m:7s} {'equal' if good else 'DIFFERENT':9s} "
                f"n={len(first['values'])} ms={ms:8.3f} x{(base_ms / ms if ms else 0):5.2f} "
                f"peak={max(r['peak'] for r in rs) / 2**20:9.1f}MiB "
                f"wall={rs[0]['wall']:.1f}s rc={[r['rc'] for r in rs]}")
        if rs[0].get("summary"):
            line += " " + json.dumps(rs[0]["summary"])[:600]
        print(line, flush=True)
        if (a.show_err or not good) and m != "plain":
            for r in rs[:1]:
                print("   stderr:", r["err"][-1500:].replace("\n", "\n   "))
            for k, (x, y) in enumerate(zip(first["values"], rs[0]["values"])):
                if x != y:
                    print(f"   first difference at value {k}: {x} / {y}")
                    break
            print("   values:", len(first["values"]), len(rs[0]["values"]))
    if a.json:
        with open(a.json, "a") as f:
            f.write(json.dumps({"name": a.name, "runs": got}) + "\n")
    return 0 if ok else 1


sys.exit(main())
