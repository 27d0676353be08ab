// SPDX-License-Identifier: Apache-2.0
document.getElementById('summary').textContent = JSON.parse(document.getElementById('attn-data').textContent).title;
