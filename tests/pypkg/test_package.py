# SPDX-License-Identifier: Apache-2.0
"""The Python package with NumPy alone: arrays in place, results, errors, threads, fork, Ctrl-C, and the examples of its docstrings."""
import array
import ast
import contextlib
import doctest
import gc
import importlib.util
import inspect
import io
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import numpy as np

import attn
from reference import attention

RNG = np.random.default_rng(20260)


def draw(*shape, dtype="f4"):
    return RNG.standard_normal(shape).astype(dtype)


def sizes():
    return draw(2, 4, 5, 8), draw(2, 2, 7, 8), draw(2, 2, 7, 6)


class OnlyDlpack:
    """An array without the buffer protocol."""

    def __init__(self, a):
        self.a, self.shape = a, a.shape

    def __dlpack__(self, **kwargs):
        return self.a.__dlpack__(**kwargs)


class Meaning(unittest.TestCase):
    def near(self, got, expected, tolerance=1e-5):
        np.testing.assert_allclose(np.asarray(got, "f8"), expected, tolerance, tolerance)

    def check(self, arrays, tolerance=1e-5, reference=None, **options):
        out, lse, weights, stages = attn.sdpa(*arrays, return_lse=True, return_weights=True, stages=("masked",), **options)
        expected = attention(*arrays, **(options if reference is None else reference))
        self.near(out, expected["out"], tolerance)
        for name, found in (("lse", lse), ("weights", weights), ("masked", stages["masked"])):
            self.near(found, expected[name], max(tolerance, 1e-5) if out.dtype != np.float64 else tolerance)

    def test_options(self):
        x = sizes()
        hide = RNG.random((2, 1, 5, 7)) < 0.7
        bias = np.where(RNG.random((4, 5, 7)) < 0.2, -np.inf, draw(4, 5, 7)).astype("f4")
        self.check(x)
        self.check(x, mask=hide)
        self.check(x, bias=bias)
        self.check(x, mask=hide, bias=bias, scale=-0.3, softcap=2.0, kv_len=[7, 3], q_len=[2, 5], sinks=[0.1, -1, 2, 0])
        self.check(x, causal="top-left", reference={"causal": True})
        self.check(x, causal="bottom-right", reference={"causal": True, "offset": 2})
        self.check(x, causal=True, align="bottom-right", window=(2, -1), reference={"causal": True, "offset": 2, "window": (2, -1)})
        self.check(x, causal=True, offset=[1, 3], reference={"causal": True, "offset": [1, 3]})
        slopes = [0.5, 0.25, 0.1, 0.0]
        self.check(x, alibi=slopes, offset=-1, reference={"alibi": slopes, "offset": -1})
        self.check(x, alibi=True, offset=1, reference={"alibi": [2.0 ** (-2 * (h + 1)) for h in range(4)], "offset": 1})

    def test_dtypes(self):
        for dtype, tolerance in (("f8", 1e-13), ("f4", 1e-5), ("f2", 2e-3)):
            self.check([a.astype(dtype) for a in sizes()], tolerance)
            self.assertEqual(attn.sdpa(*(a.astype(dtype) for a in sizes())).dtype, np.dtype(dtype))

    def test_bf16_as_two_bytes(self):
        bits = [(a.view("u4") >> 16).astype("u2") for a in sizes()]
        exact = [(b.astype("u4") << 16).view("f4") for b in bits]
        got = attn.sdpa(*(b.view("V2") for b in bits))
        self.assertEqual(got.dtype, np.dtype("V2"))
        self.near((got.view("u2").astype("u4") << 16).view("f4"), attention(*exact)["out"], 2.0 ** -7)

    def test_any_strides_and_read_only(self):
        q, k, v = sizes()
        expected = attn.sdpa(q, k, v)
        wide = np.zeros((2, 8, 10, 16), "f4")
        wide[:, ::2, ::2, ::2] = q
        reversed_q = np.ascontiguousarray(q[..., ::-1])[..., ::-1]
        transposed = np.ascontiguousarray(k.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)
        for a in (k, v, transposed):
            a.setflags(write=False)
        np.testing.assert_array_equal(attn.sdpa(wide[:, ::2, ::2, ::2], k, v), expected)
        np.testing.assert_array_equal(attn.sdpa(reversed_q, transposed, v), expected)
        spread = np.broadcast_to(k[:1], k.shape)
        np.testing.assert_array_equal(attn.sdpa(q, spread, v), attn.sdpa(q, spread.copy(), v))

    def test_out_is_written_in_place(self):
        q, k, v = sizes()
        whole = np.full((2, 5, 4, 6), 7, "f8")
        out = attn.sdpa(q, k, v, out=whole.transpose(0, 2, 1, 3))
        self.assertTrue(np.shares_memory(out, whole))
        np.testing.assert_allclose(whole.transpose(0, 2, 1, 3), attn.sdpa(q, k, v), 1e-6, 1e-6)

    def test_memoryview_and_dlpack(self):
        q, k, v = sizes()

        expected = attn.sdpa(q, k, v)
        np.testing.assert_array_equal(attn.sdpa(memoryview(q), k, OnlyDlpack(v)), expected)
        row = array.array("d", [1.0, 2.0])
        with self.assertRaisesRegex(ValueError, "rank|axes|ndim"):
            attn.sdpa(row, row, row)

    def test_signature_of_pytorch(self):
        names = list(inspect.signature(attn.scaled_dot_product_attention).parameters)
        self.assertEqual(names, ["query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa"])
        q, k, v = sizes()
        with self.assertRaisesRegex(ValueError, "enable_gqa"):
            attn.scaled_dot_product_attention(q, k, v)
        self.near(attn.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True), attention(q, k, v, causal=True)["out"])
        five = draw(3, 2, 4, 5, 8), draw(1, 2, 4, 7, 8), draw(3, 2, 4, 7, 6)
        mask = RNG.random((3, 1, 1, 5, 7)) < 0.5
        got = attn.scaled_dot_product_attention(*five, attn_mask=mask)
        for i in range(3):
            self.near(got[i], attention(five[0][i], five[1][0], five[2][i], mask=mask[i])["out"])

    def test_varlen(self):
        q, k, v = draw(9, 4, 8), draw(9, 2, 8), draw(9, 2, 6)
        out, lse = attn.varlen(q, k, v, [0, 4, 4, 9], causal=True, return_lse=True)
        for a, b in ((0, 4), (4, 9)):
            expected = attention(*(x[None, a:b].swapaxes(1, 2) for x in (q, k, v)), causal=True)
            self.near(out[a:b].swapaxes(0, 1), expected["out"][0])
            self.near(lse[:, a:b], expected["lse"][0])

    def test_multi_head_attention_in_both_orders(self):
        w = [draw(8, 12), draw(8, 6), draw(8, 6), draw(12, 5)]
        x, heads = draw(2, 3, 8), 4
        layer = attn.MultiHeadAttention(*w, heads=heads, kv_heads=2)
        other = attn.MultiHeadAttention(*(a.T.copy() for a in w), heads=heads, kv_heads=2, order="out_in")
        q, k, v = ((x.astype("f8") @ a).reshape(2, 3, -1, 3).swapaxes(1, 2) for a in w[:3])
        expected = attention(q, k, v, causal=True)
        out, weights = layer(x, causal=True, return_weights=True)
        self.near(out, expected["out"].swapaxes(1, 2).reshape(2, 3, -1) @ w[3], 1e-4)
        self.near(weights, expected["weights"], 1e-4)
        np.testing.assert_array_equal(other(x, causal=True), out)

    def test_torch_names(self):
        state = {"in_proj_weight": draw(24, 8), "in_proj_bias": draw(24), "out_proj.weight": draw(8, 8), "out_proj.bias": draw(8)}
        x = draw(2, 3, 8)
        projected = x.astype("f8") @ state["in_proj_weight"].T + state["in_proj_bias"]
        q, k, v = (a.reshape(2, 3, 2, 4).swapaxes(1, 2) for a in np.split(projected, 3, axis=-1))
        joined = attention(q, k, v)["out"].swapaxes(1, 2).reshape(2, 3, 8)
        got = attn.MultiHeadAttention.from_torch(state, heads=2)(x)
        self.near(got, joined @ state["out_proj.weight"].T + state["out_proj.bias"], 1e-4)
        with self.assertRaisesRegex(ValueError, "bias_k"):
            attn.MultiHeadAttention.from_torch(dict(state, bias_k=draw(1, 1, 8)), heads=2)

    def test_cache_has_the_bits_of_the_whole(self):
        q, k, v = draw(2, 4, 7, 8), draw(2, 2, 7, 8), draw(2, 2, 7, 6)
        whole = attn.sdpa(q, k, v, causal=True)
        cache = attn.KVCache(batch=2, kv_heads=2, capacity=7, head_dim=8, value_dim=6)
        for a, b in ((0, 3), (3, 4), (4, 7)):
            cache.append(k[:, :, a:b], v[:, :, a:b])
            np.testing.assert_array_equal(cache.attend(q[:, :, a:b]), whole[:, :, a:b])
        with self.assertRaisesRegex(ValueError, "no room for 1 more"):
            cache.append(k[:, :, :1], v[:, :, :1])
        np.testing.assert_array_equal(cache.arrays()[1], v)
        cache.truncate(2)
        self.assertEqual(len(cache), 2)

    def test_explain_is_the_kernels_row(self):
        q, k, v = sizes()
        why = attn.explain(q, k, v, causal="bottom-right", tokens="abcde")
        row = why.cell(1, 3, 2)
        np.testing.assert_array_equal(row.output, why.output[1, 3, 2])
        self.assertEqual([bool(reasons) for reasons in row.hidden], [j > 4 for j in range(7)])

    @unittest.skipIf(attn.show_config("dicts")["command"] is None, "no command")
    def test_page_and_diagnosis(self):
        q, k, v = sizes()
        why = attn.explain(q, k, v, causal="bottom-right", tokens="abcde")
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "x.html"
            why.save(page, lang="ko")
            self.assertIn("<html", page.read_text(encoding="utf-8")[:500])
        self.assertIn("<iframe srcdoc=", why._repr_html_())
        wrong = attn.diagnose(q, k, v, attn.sdpa(q, k, v, scale=1), window=(-1, -1), align="top-left")
        self.assertFalse(wrong)
        self.assertIn("scale", str(wrong))


class Refusals(unittest.TestCase):
    def refused(self, kind, pattern, *arrays, **options):
        with self.assertRaisesRegex(kind, pattern):
            attn.sdpa(*arrays, **options)

    def test_sentences(self):
        q, k, v = sizes()
        self.refused(ValueError, "head", q[:, :3], k, v)
        self.refused(ValueError, "align", q, k, v, causal=True)
        with self.assertRaisesRegex(ValueError, "threads is -1"):
            attn.set_num_threads(-1)
        self.refused(ValueError, "two alignments", q, k, v, causal="top-left", align="bottom-right")
        self.refused(ValueError, "'left'", q, k, v, align="left")
        self.refused(ValueError, "no stage 'x'", q, k, v, stages=("x",))
        self.refused(TypeError, "i32|int32", q.astype("i4"), k, v)
        self.refused(TypeError, "type 'g'|type", q.astype("longdouble"), k, v)
        self.refused(TypeError, "numpy.asarray", q.tolist(), k, v)
        self.refused(TypeError, "scale is 'x'", q, k, v, scale="x")
        self.refused(TypeError, "unexpected keyword", q, k, v, mesk=1)
        self.refused(ValueError, "q.*out|out.*q", q, k, v[..., :1].repeat(8, -1), out=q)
        self.refused(ValueError, "read-only", q, k, v, out=np.broadcast_to(np.float32(0), (2, 4, 5, 6)))

    def test_copy_is_never_silent(self):
        q, k, v = sizes()
        swapped = q.astype(">f4")
        self.refused(TypeError, "copy=None", swapped, k, v)
        raw = np.zeros(q.nbytes + 1, "u1")[1:].view("f4").reshape(q.shape)
        raw[...] = q
        self.refused(ValueError, "aligned.*copy=None", raw, k, v)
        expected = attn.sdpa(q, k, v)
        for x in (swapped, raw, q):
            for copy in (None, True):
                np.testing.assert_array_equal(attn.sdpa(x, k, v, copy=copy), expected)
        self.assertEqual(attn.sdpa([[1, 0], [0, 1]], [[1, 0], [0, 1]], [[1, 2], [3, 4]], copy=None).dtype, np.float64)


class Processes(unittest.TestCase):
    def test_threads_have_the_same_bits(self):
        q, k, v = draw(1, 4, 64, 32), draw(1, 2, 96, 32), draw(1, 2, 96, 32)
        expected, wrong = attn.sdpa(q, k, v), []

        def work():
            for _ in range(20):
                if not np.array_equal(attn.sdpa(q, k, v), expected):
                    wrong.append(1)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])

    def test_fork_after_use(self):
        q, k, v = draw(1, 4, 200, 32), draw(1, 4, 200, 32), draw(1, 4, 200, 32)
        expected = attn.sdpa(q, k, v)
        child = os.fork()
        if not child:
            same = np.array_equal(attn.sdpa(q, k, v), expected)
            os._exit(0 if same and attn._context.context().info()["threads"] == 1 else 1)
        for _ in range(600):
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                break
            time.sleep(0.05)
        else:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            self.fail("the child hangs")
        self.assertEqual(status, 0)

    def test_keyboard_interrupt(self):
        q = draw(1, 16, 20000, 64)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
        timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
        start = time.monotonic()
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            attn.sdpa(q, q, q)
        self.assertLess(time.monotonic() - start, 10)
        np.testing.assert_allclose(attn.sdpa(q[:, :, :2], q[:, :, :1], q[:, :, :1])[0, 0, 0], q[0, 0, 0], 1e-6)

    def test_the_gil_is_released(self):
        q, ticks, stop = draw(1, 8, 4000, 64), [], threading.Event()

        def tick():
            while not stop.is_set():
                ticks.append(time.monotonic())
                time.sleep(0.001)

        thread = threading.Thread(target=tick)
        thread.start()
        start = time.monotonic()
        attn.sdpa(q, q, q)
        end = time.monotonic()
        stop.set()
        thread.join()
        self.assertGreater(sum(start < t < end for t in ticks), 3)

    @unittest.skipUnless(importlib.util.find_spec("_xxsubinterpreters"), "tried with Python 3.11")
    def test_a_sub_interpreter(self):
        """NumPy can be loaded by one interpreter of a process, so that this one does not load it."""
        inner = "import attn, numpy; x = numpy.eye(2); assert abs(attn.sdpa(x, x, x).sum() - 2) < 1e-12; print('right', flush=True)"
        outer = f"import _xxsubinterpreters as s; i = s.create(); s.run_string(i, {inner!r}); s.destroy(i)"
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", outer], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "right\n")

    def test_memory_does_not_grow(self):
        q, k, v = sizes()
        cache = attn.KVCache(batch=2, kv_heads=2, capacity=7, head_dim=8, value_dim=6)
        cache.append(k, v)

        def calls(n):
            for _ in range(n):
                attn.sdpa(q, k, v, return_lse=True, return_weights=True)
                cache.attend(q)
                attn.KVCache(kv_heads=1, capacity=1, head_dim=64)
                attn.sdpa(q, k, OnlyDlpack(v))
                try:
                    attn.sdpa(q, k, v, causal=True)
                except ValueError:
                    pass

        def held():
            gc.collect()
            return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

        calls(500)
        before = held()
        counts = [sys.getrefcount(x) for x in (q, k, v, attn._context.context())]
        calls(10000)
        self.assertLess(held() - before, 1 << 20)
        self.assertEqual([sys.getrefcount(x) for x in (q, k, v, attn._context.context())], counts)

    def test_what_a_call_costs(self):
        """Beside an addition of NumPy's, in turns: whatever the machine, the binding may not cost much more than a few of those. What
        costs too much does so every time; other programs do not."""
        from attn.bench import call_costs
        for _ in range(5):
            costs = call_costs()
            own = costs["attn.sdpa"] - costs["libattn"]
            if own < 5 * costs["numpy.add"]:
                break
        print("a call of (1,1,1,64) costs %.2f us, %.2f us of it the binding's; an addition of NumPy's %.2f us" % tuple(
            1e6 * x for x in (costs["attn.sdpa"], own, costs["numpy.add"])))
        self.assertLess(own, 5 * costs["numpy.add"])
        self.assertGreater(costs["libattn"], 1e-8)


class Bench(unittest.TestCase):
    def test_every_program_computes_the_same(self):
        from attn.bench import QUICK, measure
        for case in QUICK:
            found = measure(case, 0)
            self.assertGreaterEqual(found.keys(), {"libattn"} if case[3] == "bf16" else {"libattn", "NumPy"})
            for seconds, error in found.values():
                self.assertGreater(seconds, 0)
                self.assertLess(error, 2e-2 if case[3] == "bf16" else 1e-5)


class Documented(unittest.TestCase):
    def test_examples(self):
        count = 0
        for name in ("_sdpa", "_context", "_mha", "_layers", "_explain", "_config"):
            found = doctest.testmod(importlib.import_module("attn." + name), extraglobs={"attn": attn})
            self.assertEqual(found.failed, 0, name)
            count += found.attempted
        self.assertGreater(count, 30)

    @unittest.skipIf(attn.show_config("dicts")["command"] is None, "no command")
    def test_the_notebook(self):
        """Each cell runs, and its last value shows itself."""
        names, shown = {"__name__": "notebook"}, []
        text = (pathlib.Path(__file__).parents[2] / "examples/notebook.py").read_text()
        with contextlib.redirect_stdout(io.StringIO()):
            for cell in text.split("# %%")[1:]:
                body = ast.parse(cell.partition("\n")[2]).body
                last = body.pop() if isinstance(body[-1], ast.Expr) else None
                exec(compile(ast.Module(body, []), "notebook", "exec"), names)
                shown += [] if last is None else [eval(compile(ast.Expression(last.value), "notebook", "eval"), names)]
        kinds = [type(value).__name__ for value in shown if value is not None]
        self.assertEqual(kinds, ["Row", "Explanation", "KVCache", "Diagnosis"])
        self.assertTrue(shown[2]._repr_html_().startswith("<iframe"))
        self.assertIn("scale", str(shown[-1]))

    def test_the_stubs_are_what_runs(self):
        """Every function and method: the same parameters of the same kind in the same order, with the same defaults."""
        folder = pathlib.Path(attn.__file__).parent
        self.assertTrue((folder / "py.typed").exists())
        tree, checked = ast.parse((folder / "__init__.pyi").read_text()), 0
        names = {getattr(node, "name", None) or ast.unparse(node.target) for node in tree.body if hasattr(node, "name") or
                 isinstance(node, ast.AnnAssign)}
        self.assertEqual({name for name in names if not name.startswith("_")}, set(attn.__all__) - {"__version__"})
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                checked += self.same(node, getattr(attn, node.name))
            elif isinstance(node, ast.ClassDef):
                public = {name for name in vars(getattr(attn, node.name)) if not name.startswith("_")}
                methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
                self.assertLessEqual(public, {each.name for each in methods} | {ast.unparse(e.target) for e in node.body
                                                                                if isinstance(e, ast.AnnAssign)}, node.name)
                for each in methods:
                    checked += self.same(each, vars(getattr(attn, node.name))[each.name])
        self.assertGreater(checked, 35)

    def same(self, stub, function):
        if isinstance(function, property):
            function = function.fget
        function = getattr(function, "__func__", function)  # of a class method
        there = [(p.name, p.kind, None if p.default is p.empty else repr(p.default))
                 for p in inspect.signature(function).parameters.values()]
        given, kinds = stub.args, inspect.Parameter
        first = len(given.args) - len(given.defaults)
        ours = [(a.arg, kinds.POSITIONAL_OR_KEYWORD, None if n < first else ast.unparse(given.defaults[n - first]))
                for n, a in enumerate(given.args)]
        ours += [(a.arg, kinds.KEYWORD_ONLY, default and ast.unparse(default)) for a, default in zip(given.kwonlyargs, given.kw_defaults)]
        ours += [(given.kwarg.arg, kinds.VAR_KEYWORD, None)] if given.kwarg else []
        self.assertEqual(ours, there, stub.name)
        return 1


if __name__ == "__main__":
    unittest.main()
