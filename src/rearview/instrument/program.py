"""The functions of a whole project: which ones a call may mean, and which ones may be called from where nobody sees it.

By name, on the safe side: a method is called by every `.name(...)`; a function that is used as a value, a generator, a hook that a
framework calls, may run at any time. Knows source. Must not know loops or checkpoints. Pure.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rearview.instrument.calls import MODULE, Calls, calls_of, nodes_of, tree_of
from rearview.instrument.modules import Modules
from rearview.instrument.scopes import Function, bound, of_own, root

_PLAIN_BASES = frozenset({"object", "ABC", "Protocol", "Generic", "NamedTuple", "TypedDict", "Enum", "Exception", "Dataset", "Sampler"})
"""Classes that call none of the methods of their heirs, but for those with two underscores."""
_MODULE_METHODS = frozenset(
    "forward train eval apply parameters named_parameters children modules state_dict load_state_dict to cuda cpu half float double "
    "zero_grad requires_grad_ register_buffer register_parameter extra_repr get_extra_state set_extra_state".split()
)
"""What torch may call of an `nn.Module`."""
PLAIN_DECORATORS = frozenset(
    "no_grad inference_mode enable_grad set_grad_enabled staticmethod classmethod lru_cache cache wraps main command option argument "
    "group record override abstractmethod dataclass njit jit".split()
)
"""Decorators behind which a function still runs where it is called, and nowhere else."""
_ANNOTATED = (ast.arg, ast.AnnAssign, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.Call)
_MAKING = ("__init__", "__new__", "__post_init__")
_BY_NAME = frozenset({"getattr", "methodcaller", "attrgetter", "hasattr"})
_DYNAMIC = frozenset({"eval", "exec", "globals", "import_module", "__import__"})
"""As functions: `model.eval()` is something else."""
_OF_LIBRARIES = _MODULE_METHODS | frozenset({"step", "backward"})
"""Methods that objects of libraries have too: on an object that is not known to be the project's, `.train()` is theirs."""


@dataclass(eq=False, slots=True)
class Part:
    """A function of the project, or the body of a file."""

    file: str
    node: ast.Module | Function
    cls: ast.ClassDef | None = None
    inner: bool = False
    """Defined in a function."""
    anywhere: str | None = None
    """Why it may run at any time; None if it runs where it is called."""
    doubtful: bool = False
    """A call that was taken for a library's may be one of it."""

    @property
    def name(self) -> str:
        return self.file if isinstance(self.node, ast.Module) else self.node.name

    @property
    def suspends(self) -> bool:
        """A generator: calling it runs nothing yet."""
        return not isinstance(self.node, ast.Module) and any(isinstance(one, ast.Yield | ast.YieldFrom) for one in of_own(self.node))


@dataclass(slots=True)
class _File:
    tree: ast.Module
    calls: Calls
    nodes: list[ast.AST]
    renamed: dict[str, set[str]] = field(default_factory=dict)
    """What `from a import b as c` makes of names: {"c": {"b"}}."""
    modules: set[str] = field(default_factory=set)
    """Names that are bound to modules."""

    def named(self, name: str) -> set[str]:
        """What a name may be called where it is defined."""
        return self.renamed.get(name, set()) | {name}


class Program:
    """All Python files of a project."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.modules = Modules(files)
        self.unread: list[str] = []
        self.files: dict[str, _File] = {}
        self.parts: list[Part] = []
        self.bodies: dict[str, Part] = {}
        self._functions: dict[str, list[Part]] = {}
        self._methods: dict[str, list[Part]] = {}
        self._classes: dict[str, list[tuple[ast.ClassDef, list[Part]]]] = {}
        self._made_of: dict[str, set[str]] = {}
        """Variables and attributes by name, and the classes of the project that they are given instances of."""
        self._own: dict[int, list[ast.AST]] = {}
        self.dynamic = False
        """Functions may be called by names that are computed."""
        for path, text in sorted(files.items()):
            if path.endswith(".py"):
                self._add(path, text)
        self._share_among_cells()
        for path, file in self.files.items():
            self._look_for_values(path, file)
            self._look_for_instances(file)
        for part in self.parts:
            part.anywhere = part.anywhere or self._by_itself(part)

    # -- what there is -----------------------------------------------------------------------------------------------------

    def _add(self, path: str, text: str) -> None:
        try:
            tree = tree_of(text)
        except (SyntaxError, ValueError, RecursionError):
            self.unread.append(path)
            return
        file = self.files[path] = _File(tree, calls_of(text), nodes_of(text))
        self.bodies[path] = Part(path, tree)
        for node in file.nodes:
            if isinstance(node, ast.ImportFrom):
                for one in node.names:
                    file.renamed.setdefault(one.asname or one.name, set()).add(one.name)
                file.modules.update(one.asname or one.name for one in node.names if any(True for _ in self.modules.meant(node, path)))
            elif isinstance(node, ast.Import):
                file.modules.update((one.asname or one.name).partition(".")[0] for one in node.names)
        self._define(path, tree, None, False)

    def _share_among_cells(self) -> None:
        """What one cell of a notebook imports is there in all of them: they are one module."""
        every = [file for path, file in self.files.items() if path.startswith("cells/")]
        modules = {name for file in every for name in file.modules}
        renamed: dict[str, set[str]] = {}
        for file in every:
            for name, meant in file.renamed.items():
                renamed.setdefault(name, set()).update(meant)
        for file in every:
            file.modules, file.renamed = modules, renamed

    def _owned(self, scope: ast.AST) -> list[ast.AST]:
        """`of_own`, once for each scope."""
        own = self._own.get(id(scope))
        if own is None:
            own = self._own[id(scope)] = list(of_own(scope))
        return own

    def _define(self, path: str, scope: ast.AST, cls: ast.ClassDef | None, inner: bool) -> None:
        for node in self._owned(scope):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                part = Part(path, node, cls, inner)
                self.parts.append(part)
                (self._functions if cls is None else self._methods).setdefault(node.name, []).append(part)
                if cls is not None:
                    self._classes[cls.name][-1][1].append(part)
                self._define(path, node, None, True)
            elif isinstance(node, ast.ClassDef):
                self._classes.setdefault(node.name, []).append((node, []))
                self._define(path, node, node, inner)

    # -- what a call means -------------------------------------------------------------------------------------------------

    def called(self, call: ast.Call, caller: Part) -> list[Part]:
        """The functions of the project that a call in one of them may run."""
        return [part for part in self._meant(call, caller) if _fits(call, part)]

    def _meant(self, call: ast.Call, caller: Part) -> list[Part]:
        function, file = call.func, self.files[caller.file]
        if isinstance(function, ast.Name):
            names = file.named(function.id)
            own = [part for part in self._functions.get(function.id, []) if part.file == caller.file or caller.file.startswith("cells/")]
            if not own or function.id in file.renamed:
                own += [part for name in names for part in self._functions.get(name, []) if part not in own]
            made = self._every_making() if function.id == "cls" else [part for name in names for part in self._making(name)]
            return [*own, *made]
        if isinstance(function, ast.Attribute):
            if function.attr == "__class__":
                return self._every_making()
            module = isinstance(function.value, ast.Name) and function.value.id in file.modules
            found = self._methods_meant(call, function, caller)
            if module or isinstance(function.value, ast.Attribute):
                found += [part for part in self._functions.get(function.attr, []) if not part.inner]
                found += self._making(function.attr)
            return found
        return self._every_making() if isinstance(function, ast.Call) else []

    def _methods_meant(self, call: ast.Call, function: ast.Attribute, caller: Part) -> list[Part]:
        methods = self._methods.get(function.attr, [])
        receiver = function.value
        if root(receiver) in ("self", "super") and isinstance(receiver, ast.Name | ast.Call) and caller.cls is not None:
            related = self._related(caller.cls) - ({caller.cls.name} if isinstance(receiver, ast.Call) else set())
            return [part for part in methods if part.cls is not None and part.cls.name in related]
        if function.attr not in _OF_LIBRARIES or (isinstance(receiver, ast.Name) and receiver.id in ("self", "cls")):
            return list(methods)
        name = receiver.attr if isinstance(receiver, ast.Attribute) else receiver.id if isinstance(receiver, ast.Name) else ""
        made = self._made_of.get(name, set())
        known = [part for part in methods if part.cls is not None and made & self._related(part.cls)]
        for part in methods:
            if part not in known and _fits(call, part):
                part.doubtful = True
        return known

    def _related(self, cls: ast.ClassDef) -> set[str]:
        """The classes of the project that a class comes from or that come from it, by name."""
        related = {cls.name}
        while True:
            more = {name for name, every in self._classes.items() for one, _ in every if _bases(one) & related}
            more |= {base for name in related for one, _ in self._classes.get(name, []) for base in _bases(one) if base in self._classes}
            if more <= related:
                return related
            related |= more

    def _making(self, name: str, seen: frozenset[str] = frozenset()) -> list[Part]:
        """What runs when an instance of a class is made: its own methods for that, and those of the classes it comes from."""
        found = []
        for cls, methods in self._classes.get(name, []):
            found += [part for part in methods if part.name in _MAKING]
            for base in cls.bases:
                above = base.attr if isinstance(base, ast.Attribute) else base.id if isinstance(base, ast.Name) else ""
                if above not in seen:
                    found += self._making(above, seen | {name, above})
        return found

    def _every_making(self) -> list[Part]:
        return [part for name in _MAKING for part in self._methods.get(name, [])]

    # -- what may run at any time --------------------------------------------------------------------------------------------

    def _by_itself(self, part: Part) -> str | None:
        node = part.node
        assert not isinstance(node, ast.Module)
        if any(isinstance(one, ast.Yield | ast.YieldFrom) for one in self._owned(node)):
            return "is a generator"
        if isinstance(node, ast.AsyncFunctionDef):
            return "is asynchronous"
        for decorator in node.decorator_list:
            named = decorator.func if isinstance(decorator, ast.Call) else decorator
            name = named.attr if isinstance(named, ast.Attribute) else named.id if isinstance(named, ast.Name) else ""
            if name not in PLAIN_DECORATORS or name in self._functions or name in self._classes:
                return f"is decorated with {ast.unparse(decorator)}"
        if part.cls is None:
            return None
        if node.name.startswith("__") and node.name.endswith("__") and node.name not in _MAKING:
            return "is called by Python itself"
        return self._by_its_class(part.cls, node.name)

    def _by_its_class(self, cls: ast.ClassDef, name: str, seen: frozenset[str] = frozenset()) -> str | None:
        for base in cls.bases:
            base = base.value if isinstance(base, ast.Subscript) else base
            above = base.attr if isinstance(base, ast.Attribute) else base.id if isinstance(base, ast.Name) else ""
            if above in self._classes:
                if above not in seen:
                    for one, _ in self._classes[above]:
                        why = self._by_its_class(one, name, seen | {above})
                        if why:
                            return why
            elif above == "Module":
                if name in _MODULE_METHODS or (name.startswith("_") and name not in _MAKING):
                    return "may be called by torch"
            elif above not in _PLAIN_BASES and not (name in _MAKING and above.endswith(("Dataset", "Module"))):
                return f"may be called by {above or 'a class that is computed'}"
        return None

    def _look_for_values(self, path: str, file: _File) -> None:
        """Find functions that are used as values: whoever holds one may call it."""
        plain = {id(node.func) for node in file.nodes if isinstance(node, ast.Call)}
        plain |= {id(one) for node in file.nodes if isinstance(node, _ANNOTATED) for top in _annotations(node) for one in ast.walk(top)}
        self._values_in(file.tree, path, file, plain, frozenset())
        for node in file.nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and id(node) not in plain:
                self._is_value(node.attr, method=True)
                if root(node) in file.modules:
                    self._is_value(node.attr, method=False)
            elif isinstance(node, ast.Call):
                self._look_at_dynamic(node, file)

    def _look_for_instances(self, file: _File) -> None:
        for node in file.nodes:
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and isinstance(node.value, ast.Call):
                function = node.value.func
                made = function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
                known = {one for one in file.named(made) if one in self._classes}
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    name = target.attr if isinstance(target, ast.Attribute) else target.id if isinstance(target, ast.Name) else ""
                    self._made_of.setdefault(name, set()).update(known)

    def _values_in(self, scope: ast.AST, path: str, file: _File, plain: set[int], local: frozenset[str]) -> None:
        """Names that are read and not called, unless they are variables of the functions around."""
        for node in self._owned(scope):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in plain and node.id not in local:
                for name in file.named(node.id):
                    self._is_value(name, method=False)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                own = self._owned(node)
                defined = {one.name for one in own if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
                self._values_in(node, path, file, plain, (local | bound(node, own)) - defined)
            elif isinstance(node, ast.ClassDef):
                self._values_in(node, path, file, plain, local)
            elif isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
                self._values_in(node, path, file, plain, local | bound(node))

    def _is_value(self, name: str, *, method: bool) -> None:
        parts = self._methods.get(name, []) if method else [*self._functions.get(name, []), *self._making(name)]
        for part in parts:
            part.anywhere = part.anywhere or "is used as a value"

    def _look_at_dynamic(self, call: ast.Call, file: _File) -> None:
        name = call.func.id if isinstance(call.func, ast.Name) else call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if name in _BY_NAME:
            given = call.args[1:2] if name in ("getattr", "hasattr") else call.args
            for one in given:
                if isinstance(one, ast.Constant) and isinstance(one.value, str):
                    self._is_value(one.value, method=True)
                    self._is_value(one.value, method=False)
                elif root(call.args[0]) not in file.modules:
                    self.dynamic = True
        elif name in _DYNAMIC and (isinstance(call.func, ast.Name) or name == "import_module"):
            ours = call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value == MODULE
            self.dynamic = self.dynamic or not ours


def _annotations(node: ast.AST) -> Iterator[ast.AST]:
    """Where a class is named and not used: annotations, bases, `isinstance`, handlers."""
    if isinstance(node, ast.arg | ast.AnnAssign):
        if node.annotation:
            yield node.annotation
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        if node.returns:
            yield node.returns
    elif isinstance(node, ast.ClassDef):
        yield from node.bases
    elif isinstance(node, ast.ExceptHandler):
        if node.type:
            yield node.type
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass", "super"):
        yield from node.args


def _bases(cls: ast.ClassDef) -> set[str]:
    return {one.attr if isinstance(one, ast.Attribute) else one.id for one in cls.bases if isinstance(one, ast.Attribute | ast.Name)}


def _fits(call: ast.Call, part: Part) -> bool:
    """Whether a function can be called so: with another number of arguments it would be an error."""
    if isinstance(part.node, ast.Module) or part.node.decorator_list or part.name in _MAKING:
        return True
    given = part.node.args
    if any(isinstance(one, ast.Starred) for one in call.args) or any(word.arg is None for word in call.keywords):
        return True
    bound = 1 if part.cls is not None else 0
    places = [*given.posonlyargs, *given.args]
    words = {word.arg for word in call.keywords}
    known = {one.arg for one in [*given.args, *given.kwonlyargs]}
    if not given.kwarg and not words <= known:
        return False
    if len(call.args) + bound > len(places):
        return given.vararg is not None or (bound == 1 and len(call.args) <= len(places))
    needed = [one.arg for one in places[: len(places) - len(given.defaults)]][bound + len(call.args) :]
    if bound and len(call.args) and _through_class(call):
        return True
    return all(name in words for name in needed)


def _through_class(call: ast.Call) -> bool:
    """`Trainer.step(trainer)`: the first argument may be the instance."""
    return isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) and call.func.value.id[:1].isupper()
