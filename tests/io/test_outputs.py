# SPDX-License-Identifier: Apache-2.0
"""The output bar: all outputs or none, whatever happens in between."""
import io
import os
import resource
import signal
import stat
import subprocess
import time
import unittest

import numpy as np

from support import FileTest, IO_COPY, limit_memory, run

OLD = b"the old file"


class Outputs(FileTest):
    def setUp(self):
        super().setUp()
        self.numbers = np.arange(100000, dtype=np.float32).reshape(100, 1000)
        np.save(self.folder / "in.npy", self.numbers)

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())

    def saved(self, name):
        return np.array_equal(np.load(self.folder / name), self.numbers)

    def start(self, *arguments, **options):
        """io_copy, not waited for."""
        process = subprocess.Popen([IO_COPY, self.folder / "in.npy", *arguments], stderr=subprocess.PIPE, **options)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def start_and_wait_before_rename(self):
        """It has filled two temporaries and now waits for a reader of a FIFO: between the last write and the first rename."""
        for name in ("a.npy", "b.csv"):
            self.path(name, OLD)
        os.mkfifo(self.folder / "fifo")
        process = self.start(self.folder / "a.npy", self.folder / "b.csv", self.folder / "fifo")
        end = time.monotonic() + 30
        while time.monotonic() < end:
            temporaries = [path for path in self.folder.iterdir() if path.name.endswith(".tmp")]
            if len(temporaries) == 2 and all(path.stat().st_size > 400000 for path in temporaries):
                time.sleep(0.2)
                return process
            time.sleep(0.01)
        return self.fail("the temporaries were not filled")

    def test_several_appear_together(self):
        process = self.start_and_wait_before_rename()
        self.assertEqual((self.folder / "a.npy").read_bytes(), OLD)
        with open(self.folder / "fifo", "rb") as fifo:
            self.assertTrue(np.array_equal(np.load(io.BytesIO(fifo.read())), self.numbers))
        self.assertEqual(process.wait(30), 0)
        self.assertTrue(self.saved("a.npy"))
        self.assertTrue(np.array_equal(np.loadtxt(self.folder / "b.csv", delimiter=","), self.numbers))
        self.assertEqual(self.names(), ["a.npy", "b.csv", "fifo", "in.npy"])

    def test_killed_between_write_and_rename(self):
        process = self.start_and_wait_before_rename()
        process.kill()
        process.wait()
        for name in ("a.npy", "b.csv"):
            self.assertEqual((self.folder / name).read_bytes(), OLD)
        self.assertTrue(all(name.startswith(".attn-") for name in set(self.names()) - {"a.npy", "b.csv", "fifo", "in.npy"}))
        self.accept(self.folder / "in.npy", self.folder / "a.npy")  # leftovers are in nobody's way
        self.assertTrue(self.saved("a.npy"))

    def test_terminated_between_write_and_rename(self):
        process = self.start_and_wait_before_rename()
        process.terminate()
        self.assertEqual(process.wait(30), -signal.SIGTERM)
        self.assertEqual(self.names(), ["a.npy", "b.csv", "fifo", "in.npy"])
        for name in ("a.npy", "b.csv"):
            self.assertEqual((self.folder / name).read_bytes(), OLD)

    def test_file_size_limit(self):
        def limit():
            limit_memory()
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it; a shell does not
            resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))

        self.path("b.npz", OLD)
        for outputs in (["a.npy"], ["b.npz"], ["a.safetensors", "b.npz"], ["c.csv"]):
            with self.subTest(outputs):
                names = ["array"] if outputs[0] != "c.csv" else None
                self.refuse(self.folder / "in.npy", *[self.folder / name for name in outputs], says="cannot write: File too large",
                            status=6,
                            preexec=limit)
                self.assertEqual(self.names(), ["b.npz", "in.npy"], names)
                self.assertEqual((self.folder / "b.npz").read_bytes(), OLD)

    def test_devices(self):
        self.path("a.npy", OLD)
        for name in ("/dev/null", "/dev/zero"):
            self.accept(self.folder / "in.npy", name, name, self.folder / "b.npy")
            self.assertTrue(stat.S_ISCHR(os.stat(name).st_mode))
        self.refuse(self.folder / "in.npy", self.folder / "a.npy", "/dev/full", says="/dev/full: cannot write: No space left on device",
                    status=6)
        self.assertEqual((self.folder / "a.npy").read_bytes(), OLD)
        self.assertEqual(self.names(), ["a.npy", "b.npy", "in.npy"])

    def test_standard_output(self):
        for name in ("-", "/dev/stdout"):
            out = self.accept(self.folder / "in.npy", name, self.folder / "a.npy")
            self.assertTrue(np.array_equal(np.load(io.BytesIO(out)), self.numbers))
            with open(self.folder / "redirected.npy", "wb") as file:
                done = subprocess.run([IO_COPY, self.folder / "in.npy", name], stdout=file, check=False)
            self.assertEqual(done.returncode, 0)
            self.assertTrue(self.saved("redirected.npy"))
        with open("/dev/full", "wb") as full:
            done = subprocess.run([IO_COPY, self.folder / "in.npy", "-", self.folder / "b.npy"], stdout=full, stderr=subprocess.PIPE,
                                  check=False)
        self.assertEqual((done.returncode, done.stderr), (2, b"6 standard output: cannot write: No space left on device\n"))
        self.assertFalse((self.folder / "b.npy").exists())
        self.refuse(self.folder / "in.npy", "-", "/dev/stdout", says="same file", status=1)

    def test_broken_pipe(self):
        read, write = os.pipe()
        os.close(read)

        def default_sigpipe():
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)

        process = self.start("-", self.folder / "a.npy", stdout=write, preexec_fn=default_sigpipe)
        os.close(write)
        self.assertEqual((process.wait(30), process.stderr.read()), (2, b"6 standard output: cannot write: Broken pipe\n"))
        self.assertEqual(self.names(), ["in.npy"])

    def test_links_stay(self):
        (self.folder / "there").mkdir()
        self.path("there/real.npy", OLD)
        (self.folder / "link.npy").symlink_to("second.npy")
        (self.folder / "second.npy").symlink_to(self.folder / "there" / "real.npy")
        (self.folder / "dangling.npy").symlink_to("there/new.npy")
        (self.folder / "loop.npy").symlink_to("loop.npy")
        self.accept(self.folder / "in.npy", self.folder / "link.npy", self.folder / "dangling.npy")
        for link, target in (("link.npy", "there/real.npy"), ("dangling.npy", "there/new.npy")):
            self.assertTrue((self.folder / link).is_symlink())
            self.assertFalse((self.folder / target).is_symlink())
            self.assertTrue(self.saved(target))
        self.assertEqual(sorted(path.name for path in (self.folder / "there").iterdir()), ["new.npy", "real.npy"])
        self.refuse(self.folder / "in.npy", self.folder / "loop.npy", says="symbolic links", status=6)

    def test_the_same_target_twice(self):
        (self.folder / "link.npy").symlink_to("a.npy")
        (self.folder / "folder").mkdir()
        (self.folder / "folder" / "here").symlink_to("..")
        for first, second in (("a.npy", "a.npy"), ("a.npy", "./a.npy"), ("a.npy", "folder/../a.npy"), ("link.npy", "a.npy"),
                              ("folder/here/a.npy", "a.npy")):
            with self.subTest(second):
                self.refuse(self.folder / "in.npy", self.folder / first, f"{self.folder}/{second}", says="is the same file as the output",
                            status=1)
        self.assertEqual(self.names(), ["folder", "in.npy", "link.npy"])
        (self.folder / "other").mkdir()
        self.accept(self.folder / "in.npy", self.folder / "a.npy", self.folder / "other" / "a.npy")

    def test_an_output_may_replace_the_input(self):
        self.accept(self.folder / "in.npy", self.folder / "in.npy")
        self.assertTrue(self.saved("in.npy"))

    def test_permissions(self):
        self.path("old.npy", OLD).chmod(0o640)
        self.path("secret.npy", OLD).chmod(0o600)

        def mask():
            limit_memory()
            os.umask(0o027)

        self.accept(self.folder / "in.npy", *[self.folder / name for name in ("old.npy", "secret.npy", "new.npy")], preexec=mask)
        for name, mode in (("old.npy", 0o640), ("secret.npy", 0o600), ("new.npy", 0o640)):
            self.assertEqual(stat.S_IMODE((self.folder / name).stat().st_mode), mode, name)

    def test_what_cannot_be_written(self):
        (self.folder / "folder.npy").mkdir()
        for name, says in (("none/a.npy", "No such file or directory"), ("folder.npy", "Is a directory"),
                           ("in.npy/a.npy", "Not a directory"), ("a" * 300 + ".npy", "File name too long")):
            with self.subTest(name[:20]):
                self.refuse(self.folder / "in.npy", self.folder / "b.npy", f"{self.folder}/{name}", says=says, status=6)
        self.refuse(self.folder / "in.npy", "", says="suffix", status=4)
        self.refuse(self.folder / "in.npy", self.folder / "a.bin", says="the suffix is none of these", status=4)
        self.refuse(self.folder / "in.npy", self.folder / "a.safetensors.index.json", says="the suffix is none of these", status=4)
        self.assertEqual(self.names(), ["folder.npy", "in.npy"])

    def test_long_names(self):
        name = "a" * 251 + ".npy"
        self.accept(self.folder / "in.npy", self.folder / name)
        self.assertTrue(self.saved(name))

    def test_write_protected(self):
        """Root may write everything, so this runs as nobody."""
        (self.folder / "closed").mkdir(mode=0o555)
        self.path("protected.npy", OLD).chmod(0o444)
        self.folder.chmod(0o777)
        (self.folder / "in.npy").chmod(0o644)

        def nobody():
            limit_memory()
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)

        if run("/dev/null", preexec=nobody).returncode != 2:
            self.skipTest("nobody may not run the test program")
        self.refuse(self.folder / "in.npy", self.folder / "closed" / "a.npy", says="Permission denied", status=6, preexec=nobody)
        self.refuse(self.folder / "in.npy", self.folder / "protected.npy", says="Permission denied", status=6, preexec=nobody)
        self.assertEqual((self.folder / "protected.npy").read_bytes(), OLD)
        self.accept(self.folder / "in.npy", self.folder / "open.npy", preexec=nobody)

    def test_what_a_format_cannot_hold(self):
        np.save(self.folder / "rank3.npy", np.zeros((2, 3, 4)))
        np.save(self.folder / "empty.npy", np.zeros((0, 4)))
        np.savez(self.folder / "two.npz", a=np.zeros(2), b=np.zeros(2))
        self.refuse(self.folder / "rank3.npy", self.folder / "a.csv", says="shape (2, 3, 4) does not fit a .csv", status=2)
        self.refuse(self.folder / "empty.npy", self.folder / "a.csv", says="at least one number", status=2)
        self.refuse(self.folder / "two.npz", self.folder / "a.npy", says="one array, not 2", status=1)


if __name__ == "__main__":
    unittest.main()
