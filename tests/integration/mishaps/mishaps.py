#!/usr/bin/env python3
"""mishaps.py BIN_DIR SOURCE_DIR CASE: what a user of `omnistage speak` meets, with the real models.

Each case ends in a working answer or in one line that says what to do, and leaves no process behind.
Exit 77: the case cannot be tried here. The mishaps of the set-up are in tests/integration/setup.
"""
import glob
import os
import pty
import signal
import subprocess
import sys
import tempfile
import time
import wave

PATIENCE_S = 120  # ends a test that hangs; nothing is timed
BIN, SOURCE, CASE = sys.argv[1:4]
PROGRAM = BIN + "/omnistage"
SPEAK, TTS = SOURCE + "/deploy/speak.yaml", SOURCE + "/deploy/tts.yaml"
MARK = f"{os.getpid()}.{time.monotonic_ns()}"
ENV = dict(os.environ, OMS_TEST_MARK=MARK)
for name in ("OMNISTAGE_CPU", "OMNISTAGE_DEPLOY", "OMNISTAGE_BIN_DIR", "OMNISTAGE_LOG"):
    ENV.pop(name, None)
WORK = tempfile.TemporaryDirectory(prefix="oms-mishaps-")
WAV = WORK.name + "/answer.wav"


def fail(what):
    print("FAILED: " + what)
    sys.exit(1)


def skip(why):
    print("skipped: " + why)
    sys.exit(77)


def expect(condition, what):
    if not condition:
        fail(what)


def marked():
    """Live processes started by this test, by the names of their programs."""
    found = {}
    for folder in glob.glob("/proc/[0-9]*"):
        try:
            with open(folder + "/environ", "rb") as file:
                if MARK.encode() not in file.read():
                    continue
            with open(folder + "/stat") as file:
                name, rest = file.read().split("(", 1)[1].rsplit(")", 1)
            if rest.split()[0] != "Z" and int(folder[6:]) != os.getpid():
                found[int(folder[6:])] = name
        except (OSError, IndexError):
            continue
    return found


def wait_for(condition, what):
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            fail("waited in vain for " + what)
        time.sleep(0.01)


def expect_nothing_left():
    wait_for(lambda: not marked(), f"the end of {marked()}")


class Ran:
    def __init__(self, process):
        try:
            self.out, self.err = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            fail("the command does not end")
        self.code = process.returncode
        print(f"exit {self.code}\n  out: {self.out!r}\n  err: {self.err!r}")

    def expect_code(self, code):
        expect(self.code == code, f"exit code {self.code} instead of {code}")

    def expect_one_line(self, *words):
        """One line of complaint on stderr, with all the words."""
        lines = self.err.splitlines()
        own = [line for line in lines if line.startswith("omnistage: ")]
        others = [line for line in lines if not line.startswith(("omnistage: ", "ready "))]
        expect(len(own) == 1 and not others, "more or less than one line of complaint")
        for word in words:
            expect(word in own[0], f"'{word}' is missing in: {own[0]}")


def start(*arguments, env=None, before=()):
    return subprocess.Popen([*before, PROGRAM, "speak", *arguments], env={**ENV, **(env or {})}, text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=WORK.name)


def speak(*arguments, **how):
    return Ran(start(*arguments, **how))


def expect_sound(path=WAV):
    with wave.open(path) as file:
        expect(file.getframerate() == 24000 and file.getnframes() > 2400, f"no speech in {path}")


def on_terminal(arguments, drive):
    """Runs the command with a terminal of its own; drive(keyboard, screen, pid) sees what is shown and may type."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(WORK.name)
        os.execve(PROGRAM, [PROGRAM, *arguments], ENV)
    os.set_blocking(terminal, False)
    shown = bytearray()

    def look():
        try:
            shown.extend(os.read(terminal, 4096))
        except (BlockingIOError, OSError):  # OSError: the other side is closed
            pass
        return shown

    drive(lambda key: os.write(terminal, key), look)
    status = []

    def ended():
        look()
        status[:] = os.waitpid(pid, os.WNOHANG)
        return status[0] == pid

    wait_for(ended, "the end of the command on a terminal")
    look()
    os.close(terminal)
    code = os.waitstatus_to_exitcode(status[1])
    print(f"exit {code}, shown: {bytes(shown)!r}")
    return code, shown.decode(errors="replace")


def no_argument():
    code, shown = on_terminal(["speak"], lambda keyboard, look: None)
    expect(code == 2, "wrong exit code")
    expect(len(shown.splitlines()) == 1 and 'omnistage speak "Why is the sky blue?"' in shown, "no hint in one line")


def ctrl_c_loading():
    """At three moments: the supervisor starts, the stages start, the progress line is there."""
    stages = lambda: list(marked().values()).count("omnistage-stage")
    moments = {
        "supervisor": lambda look: len(marked()) >= 2,
        "stages": lambda look: stages() == 3,
        "progress": lambda look: b"loading" in look(),
    }
    for name, moment in moments.items():
        def drive(keyboard, look):
            wait_for(lambda: moment(look), "moment: " + name)
            keyboard(b"\x03")
        code, shown = on_terminal(["speak", "--deploy", SPEAK, "--out", WAV, "hi"], drive)
        expect(code == 130, f"{name}: exit code {code} instead of 130")
        expect("omnistage: " not in shown and "died" not in shown, name + ": Ctrl-C is no error")
        expect_nothing_left()
        expect(not os.path.exists(WAV), name + ": an empty file is left")


def ended_by_signal():
    """Ctrl-C and SIGTERM in the middle of the answer keep what was said; SIGKILL leaves no process."""
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)):
        process = start("--deploy", SPEAK, "--out", WAV, "--max-tokens", "1500", "Tell me a long story about a dog.")
        wait_for(lambda: os.path.exists(WAV) and os.path.getsize(WAV) > 44, "sound")
        process.send_signal(number)
        ran = Ran(process)
        ran.expect_code(code)
        expect_nothing_left()
        expect(ran.out.strip() and " 0 tokens" not in ran.err, "the text that came is missing")
        expect_sound()
        os.remove(WAV)


def second_meanwhile():
    arguments = ("--deploy", SPEAK, "--max-tokens", "30", "Why is the sky blue?")
    both = [start("--out", f"{WORK.name}/{i}.wav", *arguments) for i in range(2)]
    ran = [Ran(process) for process in both]
    for i, one in enumerate(ran):
        one.expect_code(0)
        expect_sound(f"{WORK.name}/{i}.wav")
    expect(ran[0].out == ran[1].out and ran[0].out.strip(), "different answers")


def older_cpu():
    """Dispatch forced by OMNISTAGE_CPU; the stages say at level info what they took."""
    arguments = ("--deploy", SPEAK, "--out", WAV, "--max-tokens", "8", "Why is the sky blue?")
    for value, kernels in (("avx2", "avx2"), ("base", "scalar")):
        with open("/proc/cpuinfo") as file:
            if value == "avx2" and " avx2 " not in file.read():
                continue
        ran = speak(*arguments, env={"OMNISTAGE_CPU": value, "OMNISTAGE_LOG": "info"})
        ran.expect_code(0)
        expect("CPU kernels: " + kernels in ran.err, "the thinker took other kernels")
        expect(ran.out.strip(), "no text")
        expect_sound()
    ran = speak(*arguments, env={"OMNISTAGE_CPU": "sse9"})
    ran.expect_code(1)
    ran.expect_one_line("OMNISTAGE_CPU", "base", "avx2", "avx512", "sse9")


def no_dev_shm():
    if subprocess.run(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL).returncode != 0:
        skip("no rights for a mount namespace")
    views = {
        "read-only": "mount -t tmpfs -o ro tmpfs /dev/shm",
        "missing": 'new=$1; mkdir $new; for f in null zero urandom random; do touch $new/$f; '
                   'mount --bind /dev/$f $new/$f; done; mount --rbind $new /dev; ! test -e /dev/shm',
    }
    for name, view in views.items():
        before = ("unshare", "--mount", "sh", "-ec", view + '; shift; exec "$@"', "view", WORK.name + "/dev")
        ran = speak("--deploy", SPEAK, "--out", WAV, "--max-tokens", "8", "hi", before=before)
        ran.expect_code(0)
        expect_sound()
        os.remove(WAV)


def foreign_language():
    ran = speak("--deploy", TTS, "--out", WAV, "你好,世界")
    ran.expect_code(1)
    ran.expect_one_line("talker", "English", "text only")
    expect(not os.path.exists(WAV), "an empty file is left")
    # The language model may answer like that by itself: what it says is still printed, whole.
    arguments = ("--deploy", SPEAK, "--out", WAV, "--max-tokens", "12", "Напиши по-русски: привет")
    text = speak(*arguments, "--text-only")
    text.expect_code(0)
    ran = speak(*arguments)
    ran.expect_code(1)
    ran.expect_one_line("talker", "English", "text only")
    expect(ran.out == text.out and ran.out.strip(), "the text is not whole")


def bad_values():
    cases = (
        (("--temperature", "5"), ("temperature", "0", "2", "5")),
        (("--speed", "9"), ("speed", "0.5", "2", "9")),
        (("--voice", "nobody"), ("voice", "nobody", "heart")),
        (("--top-p", "7"), ("top_p", "7")),
        (("--max-tokens", "0"), ("max_tokens", "1", "0")),
        (("--system", "word " * 3000), ("prompt", "2048")),
    )
    for arguments, words in cases:
        ran = speak("--deploy", SPEAK, "--out", WAV, *arguments, "hi")
        ran.expect_code(1)
        ran.expect_one_line(*words)
        expect(not os.path.exists(WAV), "an empty file is left")


def no_model():
    ran = speak("--deploy", SPEAK, "--out", WAV, "hi", env={"OMNISTAGE_CACHE": WORK.name})
    ran.expect_code(1)
    ran.expect_one_line(WORK.name, "scripts/setup")


globals()[CASE]()
expect_nothing_left()
print("passed: " + CASE)
