"""A server's access log fitted to a model of its load.

In order: ``log_reading`` (of ``access_logs`` and recordings, with ``names``), ``visits`` (sessions and their times),
``family_fits``, ``rates`` and ``arrival_rates``, ``fitting`` (all of it as one ``fitted_document``), then ``rendering``
(table, page, profile) and ``locustfile``.
"""
