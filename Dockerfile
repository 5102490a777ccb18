# The service, its bundles and the importer of published models, without the trainer.
#
#   docker build -t interlinear .
#   docker run --rm -p 8000:8000 interlinear
#   docker run --rm -p 8000:8000 -v interlinear-models:/models -e INTERLINEAR_MODELS=firefox:es interlinear
#
# TORCH_INDEX_URL: one more index for pip to find PyTorch in. Empty, it is the default build, for CPU and CUDA alike.
# For a machine without a GPU, PyTorch's CPU-only index saves 4 GB:
#   docker build --build-arg TORCH_INDEX_URL=https://download.pytorch.org/whl/cpu -t interlinear .

ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS builder
# gcc: for the int8 kernels, which are compiled here so that what ships needs no compiler.
RUN apt-get update && apt-get install -y --no-install-recommends binutils gcc libc6-dev && rm -rf /var/lib/apt/lists/*
# pip stays outside the environment that ships.
RUN python -m venv --without-pip /opt/venv
WORKDIR /build
COPY pyproject.toml requirements.lock deploy/pytorch_index.py ./
# The dependencies without the project, whose wheel would bring the trainer along. All come from the lock file, by their
# hashes, but PyTorch and what its build for CUDA brings.
RUN python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies'], sep='\n')" \
        > requirements.txt
ARG TORCH_INDEX_URL=
# Left out: bytecode of all that the service does not import (200 MB), PyTorch's own test programs, the symbols of its
# largest library (90 MB, for debuggers), and its C++ headers, which only a compiler could use.
RUN python -m pip --python /opt/venv/bin/python install --no-cache-dir --no-compile \
        --no-deps --require-hashes -r requirements.lock \
    && python -m pip --python /opt/venv/bin/python install --no-cache-dir --no-compile \
        $(python pytorch_index.py) -r requirements.txt \
    && cd /opt/venv/lib/python3*/site-packages/torch \
    && find bin -mindepth 1 ! -name torch_shm_manager -delete \
    && rm -rf include test \
    && strip --strip-unneeded lib/libtorch_cpu.so
COPY app app
COPY model model
# .dockerignore names the part that arrives.
COPY training training
# The command `interlinear`, as an installation of the project would make it.
RUN echo /srv/interlinear > $(echo /opt/venv/lib/python3*/site-packages)/interlinear.pth \
    && printf '#!/opt/venv/bin/python\nfrom app.__main__ import interlinear\n\ninterlinear()\n' > /opt/venv/bin/interlinear \
    && chmod +x /opt/venv/bin/interlinear
# These imports write the bytecode of what the service uses. PyTorch is named because int8 decodes without it: a worker that
# needs it would otherwise compile it at every start, the file system being read-only.
RUN /opt/venv/bin/python -m app --help > /dev/null && /opt/venv/bin/python -c "import app.main, app.engine.worker, torch, py3langid.langid, eld.resources.ngrams.ngramsM60" \
    && /opt/venv/bin/python -c "import training.importing.__main__, training.importing.bundle, training.importing.retrieve, httpcore, certifi" \
    && /opt/venv/bin/python -m model.int8.library \
    && python -m compileall -q app model training


FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="Interlinear" \
      org.opencontainers.image.description="A translation service that shows its attention" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN useradd --system --uid 10001 --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin interlinear
# For a volume, which Docker makes with this owner: nothing else in the image can be written.
RUN install -d -o interlinear -g interlinear /models
COPY --from=builder /opt/venv /opt/venv
WORKDIR /srv/interlinear
COPY LICENSE NOTICE ./
COPY bundles bundles
COPY --from=builder /build/app app
COPY --from=builder /build/model model
COPY --from=builder /build/training training
# The cache folder has the weights as prepared for the kernels, which all workers map.
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    XDG_CACHE_HOME=/tmp/cache \
    INTERLINEAR_HOST=0.0.0.0 \
    INTERLINEAR_PORT=8000 \
    INTERLINEAR_BUNDLES=/srv/interlinear/bundles \
    INTERLINEAR_MODELS_DIR=/models
# By number: Kubernetes can then see that it is not root.
USER 10001
EXPOSE 8000
# Healthy is ready: every bundle's samples came out right. -I -S: a check that starts quickly, without site-packages.
HEALTHCHECK --interval=5s --timeout=4s --start-period=120s --retries=3 \
    CMD ["python", "-I", "-S", "-c", "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ['INTERLINEAR_PORT'] + '/ready', timeout=3)"]
CMD ["python", "-m", "app", "serve"]
