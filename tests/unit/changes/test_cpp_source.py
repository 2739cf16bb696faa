"""C++ cut into definitions: kinds and names, written out by reading the sources."""

from __future__ import annotations

import time

import pytest

from bot.changes.definition import Definition
from bot.changes.sources.cpp_source import macro_rows, read_cpp, tokenize


def named(text: str) -> list[str]:
    return [f"{found.kind} {found.name}" for found in read_cpp("x.cpp", text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("int f(int a) { return a; }", ["function f"]),
        ("template <typename T, int N = (1 < 2)>\nT f(T a) { return a; }", ["function f"]),
        ("template <> float f<float, kMax>(float a) { return a; }", ["function f"]),
        ("void A::B<T>::run(int a) const noexcept override { }", ["function A::B::run"]),
        ("A::A(int a) : b_{a}, c_(a) { go(); }", ["function A::A"]),
        ("A::~A() {}", ["function A::~A"]),
        ("T A::operator()(int i) const { return i; }", ["function A::operator()"]),
        ("bool operator<(A a, A b) { return a.x < b.x; }", ["function operator<"]),
        ("A& A::operator=(const A& o) { return *this; }", ["function A::operator="]),
        ("A::operator bool() const { return true; }", ["function A::operator bool"]),
        ("auto f(int a) -> decltype(a + 1) { return a + 1; }", ["function f"]),
        ("enable_if_t<(N > 2), void> f() {}", ["function f"]),
        ("__global__ void __launch_bounds__(256) k(float* x) { x[0] = 1; }", ["function k"]),
        ("C10_LAUNCH_BOUNDS_1(512)\n__global__ void k(float* x) { x[0] = 1; }", ["function k"]),
        ("MEGDNN_ATTRIBUTE_TARGET(\"sse4.2\")\nvoid k(float* x) { x[0] = 1; }", ["function k"]),
        ("PD_HOSTDEVICE inline float f(float a) { return a; }", ["function f"]),
        ("TORCH_IMPL_FUNC(glu_out)\n(const Tensor& self, int64_t dim) { go(); }", ["function TORCH_IMPL_FUNC(glu_out)"]),
        ("struct A { int x; };", ["class A"]),
        ("class API_EXPORT A final : public B<C, 3> { int x; };", ["class A"]),
        ("struct alignas(16) A { int x; };", ["class A"]),
        ("template <> struct F<BinaryOp::kAdd, float> { int x; };", ["class kAdd"]),
        ("class A::B final : public C { int x; };", ["class A::B"]),
        ("enum class Mode : int { kA, kB };", ["class Mode"]),
        ("typedef struct { int x; } Pair;", ["class Pair"]),
        ("struct X make(int a) { return {a}; }", ["function make"]),
        ("class A;\ntemplate <typename T> struct B;\nint f(int a);\nextern int g;", []),
        ("int f(int a = 2);", ["declaration f"]),
        ("template class F<float>;\ntemplate void g<int>(int*);", ["declaration F", "declaration g"]),
        ("using T = std::vector<int>;\ntypedef long L;", ["alias T", "alias L"]),
        ("using namespace at;\nusing at::Tensor;\nnamespace n = a::b;", []),
        ("constexpr int kBlock = 512;\nconst float kEps{1e-6};", ["assignment kBlock", "assignment kEps"]),
        ("static const int table[] = {1, 2, 3};", ["assignment table"]),
        ("static auto r = Registrar(\"x\", f);", ["statement r"]),
        ("REGISTER_USER_KERNEL(\"x\").SetCreateFn<A>().SetIsMatchedHob(a == b);", ["statement REGISTER_USER_KERNEL"]),
        ("PD_REGISTER_KERNEL(add, CPU, ALL_LAYOUT, AddKernel, float) {}", ["statement PD_REGISTER_KERNEL"]),
        ("PD_REGISTER_KERNEL(add, CPU, float) { kernel->OutputAt(0).SetDataType(D); }", ["statement PD_REGISTER_KERNEL"]),
        ("TEST(Add, cpu) { go(); }", ["function TEST(Add,cpu)"]),
        ("namespace a { namespace b::c {\nnamespace {\nint f() { return 1; }\n}}}\nint g() { return 2; }",
         ["function f", "function g"]),
        ("BEGIN_NAMESPACE\nnamespace a {\nint f() { return 1; }\n}", ["statement BEGIN_NAMESPACE", "function f"]),
        ("extern \"C\" {\nint f() { return 1; }\n}", ["function f"]),
        ("INSTANTIATE(float)\nINSTANTIATE(double)\nint f() { return 1; }",
         ["statement INSTANTIATE", "statement INSTANTIATE", "function f"]),
        ("A(x)\nB(y)\ntemplate <class T> void f(T) {}", ["statement A", "statement B", "function f"]),
        ("auto f = [](int a) { return a; };", ["assignment f"]),
        ("int f() { auto s = R\"x(})\")x\"; return 1; }\nint g() { return 2; }", ["function f", "function g"]),
        ("// int f() {\n/* } */ int g() { const char* s = \"}\"; char c = '{'; return 1'000; }", ["function g"]),
        ("#define F(x) \\\r\n  int f_##x() { \\\r\n    return 1; }\r\nF(a)\r\nint g() { return 2; }\r\n",
         ["macro F", "statement F", "function g"]),
        ("#define A {\nint g() { return 2; }", ["macro A", "function g"]),
        ("#ifndef X_H\n#define X_H\nint f() { return 1; }\n#endif", ["function f"]),
        ("int f(int a) {\n#if A\n  if (a) {\n#else\n  if (!a) {\n#endif\n  return 1; }\n return 2; }\nint g() { return 1; }",
         ["function f", "function g"]),
        ("#ifdef A\nint f(int a) {\n#else\nint f(long a) {\n#endif\n  return 1;\n}\nint g() { return 1; }",
         ["function f", "function g"]),
        ("int f() {\n#if A\n  return 1;\n}\n#else\n  return 2;\n}\n#endif\nint g() { return 1; }",
         ["function f", "function g"]),
        ("\tint f()\n\t{\n\t\treturn 1;\n\t}", ["function f"]),
    ],
)  # fmt: skip
def test_kinds_and_names(text: str, expected: list[str]) -> None:
    assert named(text) == expected


def test_what_is_not_cpp_does_not_move_the_borders_of_what_follows() -> None:
    method = "@implementation K\n- (void)run:(int)a { go(); }\n@end\n"
    assert named(method + "int g() { return 1; }")[-1] == "function g"


def test_tables_are_read_row_by_row_with_what_stands_before_them() -> None:
    rows = read_cpp(
        "x.cpp",
        "std::vector<std::pair<KernelAttr, Func>> Relu::list_ = {\n"
        "  {KernelAttr().AddInput(kFloat), &Relu::Launch<float>},\n"
        "  {KernelAttr().AddInput(kInt), &Relu::Launch<int>}};\n",
    )
    assert [(row.kind, row.name[:12], row.first) for row in rows] == [
        ("statement", "Relu::list_", 1), ("entry", "{ KernelAttr", 2), ("entry", "{ KernelAttr", 3),
    ]  # fmt: skip
    assert {"Relu", "list_", "kInt"} <= rows[2].uses


def test_a_body_that_only_registers_is_read_row_by_row() -> None:
    rows = read_cpp("x.cpp", 'LIB(aten, m) {\n  m.impl("a", f);\n  m.impl("b", TORCH_FN(g));\n}\n')
    assert [(row.kind, row.name) for row in rows] == [
        ("statement", "LIB"), ("entry", "a"), ("entry", "b"),
    ]  # fmt: skip
    assert [row.code for row in rows][:2] == ["LIB ( aten , m ) {", 'm . impl ( "a" , f ) ;']


def test_what_a_definition_stands_under_is_in_its_code() -> None:
    found = read_cpp(
        "x.cpp", "#if A > 1\nint f() { return 1; }\n#else\nint f() { return 2; }\n#endif\nint g;"
    )
    assert [row.code.partition("\nint")[0] for row in found] == [
        "#if A > 1", "#if A > 1\n#else", "int g ;",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (
            "#define EACH(_) _(abs, 1) \\\n  _(acos, F(2))",
            ["_ ( abs , 1 )", "_ ( acos , F ( 2 ) )"],
        ),
        ('#define SEQ ROW("a", A) ROW("b", B)', ['ROW ( "a" , A )', 'ROW ( "b" , B )']),
        ("#define ONE(_) _(abs)", []),
        ("#define CALL(x) f(x) + g(x)", []),
        ("#define EMPTY", []),
    ],
)
def test_a_macro_that_is_a_list_has_rows(text: str, rows: list[str]) -> None:
    (macro,) = read_cpp("x.cpp", text)
    assert [row.code for row in macro_rows(macro)] == rows


def code_of(text: str) -> list[tuple[str, str]]:
    return sorted((found.name, found.code) for found in read_cpp("x.cpp", text))


SOURCE = """#include <a.h>
namespace at {
#define EACH(_) _(abs) _(acos)
template <typename T>
struct Add { T operator()(T a, T b) const { return a + b; } };
static void add_kernel(TensorIterator& iter) {
  AT_DISPATCH_ALL_TYPES(iter.dtype(), "add", [&] { cpu_kernel(iter, Add<scalar_t>()); });
}
REGISTER_DISPATCH(add_stub, &add_kernel)
}  // namespace at
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("struct Add {", "struct Add  // adds\n{\n"),
        ("iter.dtype(),", "\n /* the type; */ iter . dtype ( ) ,\n"),
        ("REGISTER_DISPATCH", "/* a */ REGISTER_DISPATCH"),
        ("  AT_DISPATCH", '  LOG(INFO) << "adds; " << n;\n  AT_DISPATCH'),
        ("#include <a.h>", "// Copyright (c) 2026\n#include <b.h>\n#include <a.h>"),
        ("\n", "\r\n"),
        ("  AT_", "\tAT_"),
        ("}  // namespace at", "} // namespace at\n\n// the end"),
        ("#define EACH(_) _(abs)", "#define EACH(_) \\\n  _(abs)"),
        ("namespace at {", "class Tensor;\nvoid add_kernel(TensorIterator& iter);\nnamespace at {"),
    ],
)
def test_layout_comments_and_forward_declarations_are_no_change(old: str, new: str) -> None:
    assert code_of(SOURCE.replace(old, new)) == code_of(SOURCE)


def test_every_token_of_a_definition_is_compared() -> None:
    kept = " ".join(found.code for found in read_cpp("x.cpp", SOURCE)).split()
    missing = [
        t for t in tokenize(SOURCE.replace("#include <a.h>\n", "")).code.split() if t not in kept
    ]
    assert missing == ["namespace", "at"]


def lines(found: Definition) -> tuple[int, int]:
    return found.first, found.last


def test_lines_are_those_of_the_text() -> None:
    assert [lines(found) for found in read_cpp("x.cpp", SOURCE)] == [(3, 3), (4, 5), (6, 8), (9, 9)]


def test_time_grows_with_the_text() -> None:
    unit = SOURCE.replace("#include <a.h>\n", "")

    def seconds(copies: int) -> float:
        text = unit * copies
        started = time.process_time()
        read_cpp("x.cpp", text)
        return time.process_time() - started

    seconds(50)
    assert seconds(4000) < 40 * max(seconds(400), 0.02)


@pytest.mark.parametrize(
    "text",
    ["(" * 50_000, "{" * 50_000, "f(" * 20_000 + ")" * 20_000, "x " * 200_000, "#if A\n" * 20_000, 'R"(' * 20_000,
     "/*" * 50_000, "<" * 50_000, "a<" * 20_000, "}" * 50_000, "template<" * 10_000, "A(x)\n" * 20_000, "::" * 20_000,
     "#" * 50_000, "\\\n" * 50_000, '"' * 50_001, "operator" + "(" * 10_000, "#define " * 10_000, "namespace " * 20_000,
     "//\\\n" * 30_000, "{}\n" * 20_000, "using x\n" * 10_000, "struct " * 20_000, "extern \"C\" " * 10_000],
)  # fmt: skip
def test_hostile_texts_take_no_time(text: str) -> None:
    started = time.process_time()
    read_cpp("x.cpp", text)
    assert time.process_time() - started < 5


def test_errors_count_as_code() -> None:
    for old, new in (
        ('LOG(FATAL) << "a";', 'LOG(FATAL) << "b";'),
        ('CHECK(x) << "a";', 'CHECK(x) << "b";'),
    ):
        assert code_of(f"void f() {{ {old} }}") != code_of(f"void f() {{ {new} }}")


def test_a_define_without_a_name_is_no_macro() -> None:
    assert named("#ifndef A_H_\n#define") == []
    assert named("#define\nint f() { return 1; }") == ["function f"]
