"""Setup for every test run: markers by module, and fixtures."""

from __future__ import annotations

import gc
import os
import re
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis_profiles  # noqa: F401  which loads the profile
import pytest


def interrupt(number: int, frame: object) -> None:
    """What Python does at SIGINT by itself.

    asyncio.run replaces Python's own handler; to put it back, `signal` makes the repr of all that the run returned.
    """
    raise KeyboardInterrupt


# Shells start background processes with SIGINT ignored, and every command that a test interrupts would inherit that.
signal.signal(signal.SIGINT, interrupt)
# Models that this user has installed would take the place of tests' bundles.
os.environ["INTERLINEAR_MODELS_DIR"] = str(Path(tempfile.gettempdir(), "interlinear-tests-have-no-models"))
MARKED_BY_FIXTURE = {"browser": "browser", "shipped_url": "bundle", "shipped_en_fr": "bundle", "run_folder": "slow"}
"""Fixture to marker: it goes on each test that uses the fixture, directly or through another one."""
_MARKED_BY_MODULE = {
    "browser": """
        api_docs_page page page_adapt page_api page_attention page_calibration page_installs
        page_installs_served page_languages page_late page_script page_texts
    """,
    # These run in the network namespace that `make scale-test` makes.
    "ray": "cluster_bulk_ray replica replica_commands replica_schema",
    "bundle": """
        backends benchmarks_mixed_soak invariance invariance_prefixes shipped soak synthetic_translate
    """,
    # These train, start processes, wait for real time to pass, or send many requests; or they take long for the lines
    # that they alone run: without them `make check` finds as many faults in a third of the time.
    "slow": """
        adapt_finetune adapt_imported adapt_rehearsal adapt_transfer api api_adaptation api_admin_server
        api_attention api_deepl api_deepl_documents api_deepl_glossaries api_deepl_java api_deepl_memories
        api_deepl_node api_deepl_quality_evaluation
        api_dialects_wire api_directions api_files api_libretranslate api_memory api_openapi
        api_packages api_score api_weblate benchmarks benchmarks_ablation benchmarks_calibration
        benchmarks_engine benchmarks_gpu benchmarks_gpu_training benchmarks_heads benchmarks_hostile
        benchmarks_invariance
        benchmarks_memory_replay benchmarks_mixed_soak benchmarks_overload benchmarks_pivot benchmarks_scale
        benchmarks_serving bundle cleaning_simplified_chinese cli_d2l cli_mcp cli_models cli_toy
        cli_translate client_transcripts cluster_hosting corpora_sources data_parts data_prepare data_token_shards
        data_vocabulary deploy_balancer deploy_kubernetes deploy_pytorch_index docs_examples docs_notebook docs_site
        doctor documents_processes end_to_end engine engine_worker evaluation_calibration evaluation_evaluate
        evaluation_scoring evaluation_service_command export_argos export_bundle export_ctranslate2 export_interpolation
        file_lock formats_large formats_mutations formats_packages formats_pdf formats_slowness
        formats_small_packages http_auth http_held_bytes http_shutdown_errors importing_bundle
        importing_ctranslate2 importing_dtype importing_huggingface_marian importing_memory importing_model_bin
        importing_process int8_kernels int8_prepared int8_products invariance invariance_prefixes llm makefile
        memory_kill optim_distributed optim_loop optim_loss optim_trainer pipeline_from_memory pipeline_plan
        pipeline_preview pipeline_recipe_file pipeline_run process_map published_installer published_service
        runtime_byte_budgets runtime_watchdog schemathesis serve server server_connection server_header_limits
        server_instances server_listener server_request_queue server_slow_readers server_supervisor
        services_reload storage_store shared_store soak synthetic_translate text_glossary text_langid_tables
        text_memory_index text_plural_categories training_main training_signals translation_completion
        translation_formality translation_terminology weight_shapes weight_storage
    """,
}
MARKED_BY_MODULE = {mark: {f"test_{name}" for name in names.split()} for mark, names in _MARKED_BY_MODULE.items()}
"""Marker to the modules whose tests all have it."""


def pytest_configure(config: pytest.Config) -> None:
    """Loads the fixtures, but not where pytest-xdist only hands tests out: their imports take four seconds."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        config.pluginmanager.import_plugin("shared_fixtures")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skips the import of modules that `-m "not (a or b)"` deselects as a whole: imports take much of the time."""
    left_out = re.fullmatch(r"not \(([\w ]+)\)", config.getoption("markexpr"))
    marks = left_out[1].split(" or ") if left_out else []
    return any(collection_path.stem in MARKED_BY_MODULE.get(mark, ()) for mark in marks) or None


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_auto_num_workers() -> int:
    """One process more than there are cores: tests wait for servers, browsers and clocks much of the time."""
    return len(os.sched_getaffinity(0)) + 1


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collects no garbage meanwhile, and never looks at what was imported and collected again."""
    gc.disable()
    yield
    gc.enable()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)  # before pytest selects by -m
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        used = getattr(item, "fixturenames", ())
        marks = {mark for name, mark in MARKED_BY_FIXTURE.items() if name in used}
        for mark in marks | {mark for mark, modules in MARKED_BY_MODULE.items() if item.path.stem in modules}:
            item.add_marker(mark)
    # Quick tests come last: with them, all processes of pytest-xdist are busy to the end.
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
