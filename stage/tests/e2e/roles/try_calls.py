# SPDX-License-Identifier: Apache-2.0
"""Makes a running process try system calls: ptrace(2), as root, on x86-64.

    try_calls.py PID <<< '[[number, [argument, ...], "close" or ""], ...]'

An argument is a number, a text (its bytes and a zero are put into the process and their address is
the argument), null (the address of 256 zero bytes), or "last" (what the call before returned). A
descriptor that a call makes is closed where "close" stands. The
results, as the kernel gives them, come out as a list. The process goes on as if nothing had been.
"""

import ctypes
import json
import os
import signal
import struct
import sys

ATTACH, DETACH, STEP, GET_REGISTERS, SET_REGISTERS = 16, 17, 9, 12, 13
NAMES = (
    "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss "
    "fs_base gs_base ds es fs gs"
).split()
ARGUMENTS = ["rdi", "rsi", "rdx", "r10", "r8", "r9"]
CLOSE = 3
WAIT_ALL = 0x40000000
SYSCALL = b"\x0f\x05"
# Below the stack pointer and its red zone of 128 bytes.
SCRATCH_BELOW = 16384
TEXTS_BYTES, ZERO_BYTES = 4096, 256


class Registers(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in NAMES]


libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def ptrace(request, pid, data=None):
    if libc.ptrace(request, pid, None, data) == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"ptrace {request}: {os.strerror(number)}")


class Tracee:
    def __init__(self, pid):
        self.pid, self.owed = pid, None
        ptrace(ATTACH, pid)
        self.wait()
        self.saved = Registers()
        ptrace(GET_REGISTERS, pid, ctypes.byref(self.saved))
        self.memory = open(f"/proc/{pid}/mem", "r+b", buffering=0)
        self.call_at = self.find_call()
        self.scratch = (self.saved.rsp - SCRATCH_BELOW) & ~0xFFF
        self.kept = self.read(self.scratch, TEXTS_BYTES)

    def wait(self):
        _, status = os.waitpid(self.pid, WAIT_ALL)
        if not os.WIFSTOPPED(status):
            raise RuntimeError(f"the process ended: {status:#x}")
        if os.WSTOPSIG(status) not in (signal.SIGTRAP, signal.SIGSTOP):
            self.owed = os.WSTOPSIG(status)

    def find_call(self):
        """Where the process has a system call instruction."""
        for line in open(f"/proc/{self.pid}/maps"):
            span, rights = line.split()[:2]
            first, end = (int(bound, 16) for bound in span.split("-"))
            # The last is [vsyscall], which nobody reads.
            if "x" in rights and end < 1 << 63:
                found = self.read(first, end - first).find(SYSCALL)
                if found >= 0:
                    return first + found
        raise RuntimeError("no system call instruction")

    def read(self, at, count):
        self.memory.seek(at)
        return self.memory.read(count)

    def write(self, at, data):
        self.memory.seek(at)
        self.memory.write(data)

    def call(self, number, arguments):
        self.write(self.scratch, bytes(TEXTS_BYTES))
        at, values = self.scratch + ZERO_BYTES, []
        for argument in arguments:
            if argument is None:
                values.append(self.scratch)
            elif isinstance(argument, str):
                text = argument.encode("latin-1") + b"\0"
                self.write(at, text)
                values.append(at)
                at += (len(text) + 15) & ~15
            else:
                values.append(argument & (2**64 - 1))
        registers = Registers.from_buffer_copy(self.saved)
        for name, value in zip(ARGUMENTS, values + [0] * (6 - len(values))):
            setattr(registers, name, value)
        registers.rax, registers.rip = number, self.call_at
        # Not in a system call any more: the kernel must restart none.
        registers.orig_rax = 2**64 - 1
        ptrace(SET_REGISTERS, self.pid, ctypes.byref(registers))
        # A signal that waited may stop it before its step.
        while registers.rip == self.call_at:
            ptrace(STEP, self.pid)
            self.wait()
            ptrace(GET_REGISTERS, self.pid, ctypes.byref(registers))
        return struct.unpack("q", struct.pack("Q", registers.rax))[0]

    def leave(self):
        self.write(self.scratch, self.kept)
        ptrace(SET_REGISTERS, self.pid, ctypes.byref(self.saved))
        ptrace(DETACH, self.pid, self.owed)


def main():
    tracee = Tracee(int(sys.argv[1]))
    results = []
    try:
        for number, arguments, ends in json.load(sys.stdin):
            last = results[-1] if results else 0
            arguments = [last if argument == "last" else argument for argument in arguments]
            result = tracee.call(number, arguments)
            results.append(result)
            if ends == "close" and result >= 0:
                tracee.call(CLOSE, [result])
    finally:
        tracee.leave()
    json.dump(results, sys.stdout)


main()
