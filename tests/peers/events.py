"""Reads with TensorBoard itself what tests/peers/programs/events.cpp wrote; called by tests/peers/events."""
import json
import math
import pathlib
import struct
import sys

from tensorboard.backend.event_processing import event_accumulator, event_file_loader

folder = pathlib.Path(sys.argv[1])
BIG = 1 << 40


def float32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def same(a, b):
    return a == b or (math.isnan(a) and math.isnan(b))


wanted_loss = [(10 * i, float32((10 * i) ** -0.5), 1000.5) for i in range(1, 31)]
wanted_loss += [(10 * i, float32(2 * (10 * i) ** -0.5), 2000.25) for i in range(31, 41)]
wanted_loss += [(BIG, math.nan, 2000.25)]

events = event_accumulator.EventAccumulator(str(folder), {event_accumulator.SCALARS: 0})
events.Reload()
assert sorted(events.Tags()["scalars"]) == ["train/loss", "train/lr", "val/größe"], events.Tags()
loss = events.Scalars("train/loss")
assert len(loss) == len(wanted_loss), (len(loss), len(wanted_loss))
for got, (step, value, time) in zip(loss, wanted_loss):
    assert (got.step, got.wall_time) == (step, time) and same(got.value, value), (got, step, value)
assert all(e.value == float32(1e-3) for e in events.Scalars("train/lr"))
assert [e.value for e in events.Scalars("val/größe")] == [math.inf]
print(f"TensorBoard reads {len(loss)} losses, {len(events.Scalars('train/lr'))} rates")

# every record of every file passes its checks, and the first names the version
files = sorted(folder.glob("events.out.tfevents.*"))
assert len(files) == 2, files
for file in files:
    records = list(event_file_loader.LegacyEventFileLoader(str(file)).Load())
    assert records[0].file_version == "brain.Event:2"
    assert sum(r.WhichOneof("what") == "summary" for r in records) in (30, 11)
restart = [r for r in records if r.HasField("session_log")]
assert [(r.step, r.session_log.status) for r in restart] == [(301, 1)]  # 1: START
print(f"TensorBoard reads {len(files)} files to their ends")

lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()]
assert [line["step"] for line in lines] == [step for step, _, _ in wanted_loss]
assert [line["time"] for line in lines] == [time for _, _, time in wanted_loss]
for line, (_, value, _) in zip(lines, wanted_loss):
    assert same(float32(float(line["train/loss"])), value), line
assert float(lines[-1]["val/größe"]) == math.inf
print(f"Python reads {len(lines)} lines")
