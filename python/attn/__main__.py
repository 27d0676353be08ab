# SPDX-License-Identifier: Apache-2.0
"""`python -m attn ...` is the command attn."""
from ._command import main

main()
