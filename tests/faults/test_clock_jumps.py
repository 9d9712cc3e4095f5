"""The wall clock jumps an hour in the middle of a stream; the monotonic clock does not."""

from __future__ import annotations

import asyncio
import json
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from fault_server import COMPLETIONS, SHORT, asked, client_of, engine_of, fault_server, metric

HOUR_S = 3600
FAKETIME = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))), None)
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#ifndef MOVES_CLOCK

#include <errno.h>
#include <sys/syscall.h>

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *asked, struct timespec *left) {
    return syscall(SYS_clock_nanosleep, clock, flags, asked, left) ? errno : 0;
}

#else

static long long offset_s(void) {  /* the eight bytes of a file that the test changes */
    static volatile long long *shared;
    if (!shared) {
        int file = open(getenv("CLOCK_OFFSET_FILE"), O_RDONLY);
        shared = mmap(0, 8, PROT_READ, MAP_SHARED, file, 0);
        close(file);
    }
    return *shared;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, now);
    if (!failed && clock == CLOCK_REALTIME) now->tv_sec += offset_s();
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *stored) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (stored) *stored = exact.tv_sec;
    return exact.tv_sec;
}

#endif
"""
"""Moves the wall clock with ``MOVES_CLOCK``. Without, it gives sleeping back to the kernel: libfaketime 0.9.10 gets
absolute sleeps wrong, which are what Python's are."""


def compiled(folder: Path, *options: str) -> Path:
    """The library of ``SHIM``."""
    if COMPILER is None:
        pytest.skip("there is no C compiler")
    source, library = folder / "shim.c", folder / "shim.so"
    source.write_text(SHIM)
    subprocess.run([COMPILER, "-shared", "-fPIC", *options, "-o", library, source, "-ldl"], check=True)
    return library


class FakeTime:
    """libfaketime, which reads its offset from a file."""

    def __init__(self, folder: Path) -> None:
        if FAKETIME is None:
            pytest.skip("libfaketime is not installed; the row on the shim runs instead")
        self._file = folder / "offset"
        self.environment = {
            "LD_PRELOAD": f"{compiled(folder)}:{FAKETIME}",
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        self.jump(0)

    def jump(self, offset_s: int) -> None:
        """So many seconds from the machine's clock, from now on."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{offset_s:+d}\n")
        fresh.replace(self._file)


class Shim:
    """A library of a few lines in the place of libfaketime."""

    def __init__(self, folder: Path) -> None:
        library = compiled(folder, "-DMOVES_CLOCK")
        self._file = folder / "offset"
        self._file.write_bytes(bytes(8))
        self.environment = {"LD_PRELOAD": str(library), "CLOCK_OFFSET_FILE": str(self._file)}

    def jump(self, offset_s: int) -> None:
        """See FakeTime."""
        with self._file.open("r+b", buffering=0) as file:
            file.write(struct.pack("<q", offset_s))


@pytest.mark.parametrize("clock_of", [FakeTime, Shim])
@pytest.mark.parametrize("offset_s", [HOUR_S, -HOUR_S], ids=["forward", "back"])
async def test_a_stream_goes_on_when_the_clock_jumps(clock_of, offset_s, tmp_path):
    """No token is late (10 s are allowed, an hour went by), no engine counts as dead (after 5 s), nothing is missing.

    That the server's clock did jump is seen in the ``created`` of an answer after it.
    """
    clock = clock_of(tmp_path)
    with fault_server(5.0, "10", environment=clock.environment) as (process, url):
        async with client_of(url) as client:
            engine = engine_of(process)
            created = (await client.post(COMPLETIONS, json=asked(SHORT, max_tokens=1))).json()["created"]
            events = []
            async with client.stream("POST", COMPLETIONS, json=asked(SHORT, stream=True)) as stream:
                lines = stream.aiter_lines()
                async for line in lines:
                    events += [json.loads(line.removeprefix("data: "))] if line else []
                    if len(events) == 20:
                        clock.jump(offset_s)
                    if len(events) == 400:
                        break
            answer = (await client.post(COMPLETIONS, json=asked(SHORT, max_tokens=1500))).json()
            ready = await client.get("/v2/health/ready")

            assert abs(answer["created"] - created - offset_s) < 60
            assert len({event["created"] for event in events}) == 1
            text = "".join(event["choices"][0]["text"] for event in events)
            assert answer["choices"][0]["text"].startswith(text)
            assert ready.status_code == 200
            assert await metric(client, "mindspec_engine_restarts_total") == 0
            assert engine_of(process) == engine
            timed = await asyncio.wait_for(client.get("/health/timed-5"), 30)
            assert timed.status_code == 200
